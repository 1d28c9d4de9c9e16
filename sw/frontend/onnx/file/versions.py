"""Versions of ONNX files: older and newer ones are converted when they are read."""

import onnx
from onnx import version_converter

from celosia.sw.frontend.onnx.file.quantisers import without_quant
from celosia.sw.layers.node import ModelError

#: Domain of ONNX Runtime's operators, and all domains that can be read.
ONNX_RUNTIME = "com.microsoft"
DOMAINS = ("", "ai.onnx", ONNX_RUNTIME)

#: Versions of the standard operators that can be read, and the first that can be converted.
_OPSETS = (13, 28)
_FIRST = 6

#: Least version of the format in which constants need not be inputs of the graph.
_FORMAT = 4


def current(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in a version that can be read; another is converted.

    Raises ModelError if it is too old, of unknown operators, or cannot be converted.
    """
    model = without_quant(model)
    others = sorted({node.domain for node in model.graph.node}.difference(DOMAINS))
    if others:
        raise ModelError(f"operators of {others[0]!r} are not supported")
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise ModelError(
            "wanted weights inside the contents, got external data; give the path of the file"
        )
    opset, (low, high) = opset_of(model), _OPSETS
    if opset < _FIRST:
        raise ModelError(f"wanted opset {_FIRST} or newer, got {opset}")
    nearest = min(max(opset, low), high)
    return model if opset == nearest else _converted(model, opset, nearest)


def opset_of(model: onnx.ModelProto) -> int:
    """Return the opset of the standard operators; raises ModelError if there is none."""
    opsets = [opset.version for opset in model.opset_import if opset.domain in DOMAINS[:2]]
    if not opsets:
        raise ModelError("wanted an opset of the standard operators, got none")
    return opsets[0]


def with_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in a format in which constants are no inputs of the graph."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    plain.ir_version = max(model.ir_version, _FORMAT)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [end for end in plain.graph.input if end.name not in constants]
    del plain.graph.input[:]
    plain.graph.input.extend(inputs)
    return plain


def _converted(model: onnx.ModelProto, opset: int, nearest: int) -> onnx.ModelProto:
    """Return a model of one opset in another."""
    try:
        return version_converter.convert_version(with_constants(model), nearest)
    except Exception as error:
        # Before the reason comes a line of the converter's own source.
        reason = (str(error).strip().splitlines() or [""])[0].rpartition("failed: ")[2]
        raise ModelError(
            f"opset {opset}: onnx.version_converter cannot bring it to {nearest} ({reason}); "
            "export it again"
        ) from None
