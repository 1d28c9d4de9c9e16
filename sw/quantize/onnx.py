"""Float ``.onnx`` files, run and quantised by ONNX Runtime."""

import tempfile
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.files import read_file
from celosia.sw.quantize.model import QUANTISED, FloatModel, QuantizeError, Sample, outputs_of, port

#: Modules of the extra, and those that import them.
_MODULES = (
    "onnx",
    "celosia.sw.frontend.onnx.file.versions",
    "celosia.sw.frontend.onnx.file.shapes",
    "celosia.sw.frontend.onnx.file.external",
    "celosia.sw.quantize.in_float",
    "celosia.sw.quantize.widened",
)
_TYPES = {"tensor(float)": "float32", "tensor(int32)": "int32", "tensor(int64)": "int64"}


def open_model(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> FloatModel:
    """Return the network of an ``.onnx`` file.

    One of an older opset is converted; one that was quantised dynamically is float again; float16
    and bfloat16 become float32. Raises QuantizeError if its version cannot be read, its weights are
    missing, or its inputs are of no fixed shape.
    """
    onnx, versions, extents, external, dynamic, narrow = map(import_module, _MODULES)
    try:
        model = onnx.load_from_string(external.with_weights(read_file(path), path.parent))
        model = narrow.widened(model)
        # Constants that are inputs, too, cannot be folded; the quantiser refuses them.
        model = versions.with_constants(versions.current(model))
        if shapes:
            extents.fix(model, shapes)
    except ValueError as error:
        raise QuantizeError(str(error)) from None
    model = dynamic.in_float(model)
    kinds = {node.op_type for node in model.graph.node}
    if any(kind.startswith("QLinear") or kind == "QuantizeLinear" for kind in kinds):
        raise QuantizeError(QUANTISED)
    content = model.SerializeToString()
    ports = []
    for end in _session(content).get_inputs():
        if end.type not in _TYPES:
            raise QuantizeError(f"input {end.name!r}: wanted float32, got {end.type}")
        shape = [extent if isinstance(extent, int) else 0 for extent in end.shape]
        remedy = ", or fix them with --shape NAME=1,3,224,224, in Python shapes"
        ports.append(port(end.name, shape, _TYPES[end.type], remedy))
    return FloatModel(ports, content, lambda samples: _quantized(content, samples))


def run(content: bytes, arrays: Mapping[str, np.ndarray], steps: Iterable[int]) -> np.ndarray:
    """Return the outputs of a file with float ends, see ``outputs_of``."""
    session = _session(content)
    return outputs_of(lambda sample: session.run(None, sample), arrays, steps)


def _session(content: bytes) -> Any:
    return import_module("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )


def _quantized(content: bytes, samples: Iterable[Sample]) -> bytes:
    """Return the network with int8 tensors between QuantizeLinear and DequantizeLinear."""
    quantization: Any = import_module("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):
        """Gives the samples one by one."""

        def __init__(self) -> None:
            self.samples = iter(samples)

        def get_next(self) -> Any:
            """Return the next sample, None after the last."""
            return next(self.samples, None)

    with tempfile.TemporaryDirectory() as folder:
        source, ready, result = (Path(folder) / name for name in ("a.onnx", "b.onnx", "c.onnx"))
        source.write_bytes(content)
        import_module(f"{quantization.__name__}.shape_inference").quant_pre_process(
            source, ready, skip_symbolic_shape=True
        )
        onnx, fused = map(import_module, ("onnx", "celosia.sw.quantize.fused"))
        onnx.save(fused.with_hard_swish(onnx.load(ready)), ready)
        quantization.quantize_static(
            ready,
            result,
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            # Weights of 7 bits: with 8 the runtime saturates sums on processors without VNNI.
            reduce_range=True,
        )
        return result.read_bytes()
