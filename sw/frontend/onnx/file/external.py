"""Weights of ONNX files in files beside them, as PyTorch's exporter writes them."""

from pathlib import Path

import onnx

from celosia.sw.files import read_file
from celosia.sw.layers.node import ModelError

#: Name of the field with the file in which a tensor lies.
_LOCATION = b"location"


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files of weights of an ``.onnx`` file; none of one that cannot be read."""
    content = read_file(path)
    if _LOCATION not in content:
        return ()
    try:
        tensors = onnx.load_model_from_string(content).graph.initializer
    except Exception:
        # The reader of the model reports what is wrong.
        return ()
    entries = [entry for tensor in tensors for entry in tensor.external_data]
    names = {entry.value for entry in entries if entry.key == _LOCATION.decode()}
    return tuple(path.parent / name for name in names)


def with_weights(content: bytes, folder: Path) -> bytes:
    """Return the contents of an ``.onnx`` file with its weights inside.

    ``folder``: of the file. Raises ModelError if a file of weights is missing, too short, or
    outside the folder.
    """
    if _LOCATION not in content:
        return content
    try:
        model = onnx.load_model_from_string(content)
    except Exception:
        # The reader of the model reports what is wrong.
        return content
    try:
        onnx.load_external_data_for_model(model, str(folder))
        return model.SerializeToString()
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"wanted its files of weights beside it: {reason}") from None
