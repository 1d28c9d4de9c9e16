"""Float ``.tflite`` files: read, run, and quantised by ai-edge-quantizer."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tflite

from celosia.sw.files import read_file
from celosia.sw.ir.parts import Port
from celosia.sw.quantize.hybrid import float_weights, pack
from celosia.sw.quantize.model import FloatModel, QuantizeError, Sample, outputs_of, port
from celosia.sw.quantize.symmetric import symmetric
from celosia.sw.runtime.arrays import quantized

_SIGNATURE = "serving_default"


def open_model(path: Path) -> FloatModel:
    """Return the network of a ``.tflite`` file."""
    content = read_file(path)
    if content[4:8] != b"TFL3":
        raise QuantizeError("not a .tflite file")
    return open_content(content)


def open_content(content: bytes) -> FloatModel:
    """Return the network of the contents of a ``.tflite`` file.

    Raises QuantizeError if it is not a float network, or its inputs are of no fixed shape.
    """
    content = _with_signature(float_weights(content))
    ports = ports_of(content)
    kinds = {end.dtype for end in ports}
    if "float32" not in kinds:
        raise QuantizeError(f"wanted a float network, got inputs of {', '.join(sorted(kinds))}")

    def quantize(samples: Iterable[Sample]) -> bytes:
        tool: Any = import_module("ai_edge_quantizer.quantizer")
        recipe: Any = import_module("ai_edge_quantizer.recipe")
        worker = tool.Quantizer(bytearray(content), recipe.static_wi8_ai8())
        ranges = worker.calibrate({_key(content): list(map(dict, samples))})
        return symmetric(bytes(worker.quantize(ranges).quantized_model))

    return FloatModel(ports, content, quantize)


def ports_of(content: bytes) -> list[Port]:
    """Return the inputs of a float ``.tflite`` file with a signature."""
    details = _runner(content, "BUILTIN").get_input_details()
    return [
        port(name, detail["shape_signature"].tolist(), np.dtype(detail["dtype"]).name)
        for name, detail in details.items()
    ]


def run(content: bytes, arrays: Mapping[str, np.ndarray], steps: Iterable[int]) -> np.ndarray:
    """Return the outputs of a file in float or int8, in its type, see ``outputs_of``."""
    # The kernels that XNNPACK would replace define the int8 results.
    runner = _runner(content, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    feeds = {name: _typed(arrays[name], d) for name, d in runner.get_input_details().items()}
    return outputs_of(lambda sample: list(runner(**sample).values()), feeds, steps)


def _typed(array: np.ndarray, detail: Mapping[str, Any]) -> np.ndarray:
    """Return an input in the type of the file."""
    name = np.dtype(detail["dtype"]).name
    if name not in ("int8", "uint8", "int16"):
        return array.astype(detail["dtype"])
    scale, zero = detail["quantization"]
    return quantized(array, Port("", array.shape[1:], 1, float(scale), int(zero), -1, dtype=name))


def _runner(content: bytes, kernels: str) -> Any:
    """Return the function that a file holds."""
    litert: Any = import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=content,
        experimental_op_resolver_type=getattr(litert.OpResolverType, kernels),
    )
    return interpreter.get_signature_runner(_key(content))


def _key(content: bytes) -> str:
    """Return the name of the first signature."""
    model: Any = tflite.Model.GetRootAs(content, 0)
    return model.SignatureDefs(0).SignatureKey().decode()


def _with_signature(content: bytes) -> bytes:
    """Return the file with names of inputs and outputs, which old converters left out."""
    if tflite.Model.GetRootAs(content, 0).SignatureDefsLength():
        return content
    schema: Any = import_module("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    graph = model.subgraphs[0]

    def named(numbers: Sequence[int], kind: str) -> list[Any]:
        maps = []
        for index, number in enumerate(numbers):
            one = schema.TensorMapT()
            one.name, one.tensorIndex = f"{kind}_{index}", int(number)
            maps.append(one)
        return maps

    signature = schema.SignatureDefT()
    signature.inputs = named(graph.inputs, "input")
    signature.outputs = named(graph.outputs, "output")
    signature.signatureKey, signature.subgraphIndex = _SIGNATURE, 0
    model.signatureDefs = [signature]
    return pack(model)
