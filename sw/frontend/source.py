"""Model files of any kind: quantised ones are loaded, others refused with advice."""

import shlex
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tflite

from celosia.hw.environment.extras import install_command
from celosia.sw.files import FileError, read_file
from celosia.sw.frontend.tflite import load as load_tflite
from celosia.sw.frontend.tflite import signatures_of as signatures_of_tflite
from celosia.sw.ir.graph import Graph, Signature
from celosia.sw.ir.program import MAGIC
from celosia.sw.layers.node import FloatModelError, ModelError

#: Endings of files that hold float models, with their formats.
_FLOAT = {
    ".h5": "Keras model",
    ".hdf5": "Keras model",
    ".keras": "Keras model",
    ".pt2": "exported PyTorch program",
}
#: Endings of PyTorch files without a program that could be read.
_WEIGHTS = (".pt", ".pth")
_HDF5 = b"\x89HDF\r\n\x1a\n"
#: First bytes of the text that Git LFS keeps in place of a file.
_LFS = b"version https://git-lfs."
#: First byte of ONNX files: the version of the format comes first.
_ONNX = b"\x08"
_INTEGERS = (tflite.TensorType.INT8, tflite.TensorType.UINT8, tflite.TensorType.INT16)
# Raised by the flatbuffers package for invalid offsets.
_BROKEN = (struct.error, TypeError, IndexError, OverflowError, AttributeError, ValueError)


def load(
    source: str | Path | bytes,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str | None = None,
) -> Graph:
    """Return the graph of a quantised model.

    ``source``: path of a ``.tflite`` or ``.onnx`` file, or its contents; ``shapes``: of the inputs
    of an ``.onnx`` file whose extents are free, by name; no name stands for the only input;
    ``signature``: of a ``.tflite`` file, see ``tflite.load``. Raises ModelError if it cannot be
    used; FloatModelError, with the command that quantises it, for a float model.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = bytes(source)
        _require_contents(content, "model")
        if content[:1] == _ONNX:
            _require_no_signature("model", signature)
            return _load_onnx(content, shapes=shapes)
        _require_no_shapes(shapes, "model")
        return load_tflite(content, signature)
    path = Path(source)
    _require_contents(_starts(path), path)
    _require_other_kind(path)
    if _ends_onnx(path) and path.is_file():
        _require_no_signature(path.name, signature)
        try:
            return _load_onnx(read_file(path, ModelError), path.name, shapes, path.parent)
        except FloatModelError:
            raise FloatModelError(_float_refusal(path, "ONNX model in float")) from None
    _require_no_shapes(shapes, path)
    if kind := _float_tflite(path):
        raise FloatModelError(_float_refusal(path, kind))
    return load_tflite(path, signature)


def files_of(*models: Path) -> tuple[Path, ...]:
    """Return the files of models and, of ``.onnx`` files, those of their weights beside them."""
    onnx_files = [path for path in models if _ends_onnx(path) and path.is_file()]
    if not onnx_files:
        return models
    try:
        from celosia.sw.frontend.onnx.file import external
    except ModuleNotFoundError:
        # Reading a model names the package.
        return models
    return *models, *(file for path in onnx_files for file in external.files_of(path))


def signatures_of(source: str | Path | bytes) -> dict[str, Signature]:
    """Return the signatures of a model by their keys; only ``.tflite`` files have any."""
    is_onnx = source[:1] == _ONNX if isinstance(source, bytes) else _ends_onnx(Path(source))
    return {} if is_onnx else signatures_of_tflite(source)


def _ends_onnx(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def _require_no_signature(name: str, signature: str | None) -> None:
    if signature is not None:
        raise ModelError(f"{name}: signatures are for .tflite files, got {signature!r}")


def _require_no_shapes(shapes: Mapping[str, tuple[int, ...]] | None, name: str | Path) -> None:
    if shapes:
        raise ModelError(f"{name}: wanted an .onnx file for --shape")


def _load_onnx(
    content: bytes,
    name: str = "model",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    folder: Path | None = None,
) -> Graph:
    """Return the graph of an ``.onnx`` file; ``folder``: of its files of weights, if any."""
    try:
        from celosia.sw.frontend.onnx.file.external import with_weights
        from celosia.sw.frontend.onnx.model import load as load_onnx
    except ModuleNotFoundError as error:
        requirement = f"wanted the package {error.name}: {install_command('onnx')}"
        raise ModelError(f"{name}: {requirement}") from None
    if folder:
        try:
            content = with_weights(content, folder)
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
    return load_onnx(content, name, shapes)


def _require_other_kind(path: Path) -> None:
    """Refuse programs, and files and folders of other frameworks that are float models."""
    ending = path.suffix.lower()
    if path.is_dir():
        if (path / "saved_model.pb").is_file():
            raise FloatModelError(_float_refusal(path, "TensorFlow SavedModel in float"))
        raise ModelError(f"{path}: wanted a model file, got a directory without a saved_model.pb")
    if not path.is_file():
        return
    if _starts(path).startswith(MAGIC):
        raise ModelError(
            f"{path}: a program; wanted the model that it was compiled from (celosia run takes "
            "programs)"
        )
    if ending == ".celosia" and _starts(path)[4:8] != b"TFL3":
        raise ModelError(f"{path}: not a program, or a damaged one")
    if ending == ".s":
        assembled = f"celosia assemble {shlex.quote(str(path))} -o {shlex.quote(path.stem)}.bin"
        raise ModelError(f"{path}: assembly; translate it: {assembled}")
    if ending in _FLOAT or _starts(path).startswith(_HDF5):
        raise FloatModelError(_float_refusal(path, f"{_FLOAT.get(ending, 'Keras model')} in float"))
    if ending in _WEIGHTS:
        exported = path.with_suffix(".pt2")
        raise ModelError(
            f"{path}: PyTorch weights without a program; save torch.export.export(...) as "
            f"{exported.name}, then {_command(exported)}"
        )


def _require_contents(content: bytes, name: str | Path) -> None:
    """Refuse the text that Git LFS keeps in place of a model."""
    if content.startswith(_LFS):
        raise ModelError(
            f"{name}: a pointer of Git LFS, not the model itself; `git lfs pull` fetches it"
        )


def _starts(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_LFS))
    except OSError:
        return b""


def _command(path: Path) -> str:
    """Return the command that quantises a file."""
    ending = ".onnx" if path.suffix.lower() == ".onnx" else ".tflite"
    result = f"{path.stem}_int8{ending}"
    return f"celosia quantize {shlex.quote(str(path))} --calibration DATA -o {shlex.quote(result)}"


def _float_refusal(path: Path, kind: str) -> str:
    return f"{path}: {kind}; quantise it: {_command(path)}"


def _float_tflite(path: Path) -> str:
    """Return the kind of a ``.tflite`` file whose computed tensors are float; empty of others."""
    try:
        content = read_file(path)
        if content[4:8] != b"TFL3":
            return ""
        return _kind_of_float(tflite.Model.GetRootAs(content, 0))
    except (FileError, *_BROKEN):
        return ""


def _kind_of_float(model: Any) -> str:
    graph, computed, constants = model.Subgraphs(0), set(), set()
    for number in range(min(graph.TensorsLength(), 1 << 20)):
        tensor = graph.Tensors(number)
        buffer = model.Buffers(tensor.Buffer())
        stored = buffer.DataLength() or buffer.Offset() > 1
        (constants if stored else computed).add(tensor.Type())
    if tflite.TensorType.FLOAT32 not in computed or computed.intersection(_INTEGERS):
        return ""
    if constants.intersection((*_INTEGERS, tflite.TensorType.INT4)):
        return "dynamic-range model, integer weights but float arithmetic"
    is_half = tflite.TensorType.FLOAT16 in constants
    return "float model with float16 weights" if is_half else "float model"
