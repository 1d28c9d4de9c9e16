"""Programs of ``torch.export`` (``.pt2``): converted by litert-torch, then quantised as .tflite."""

import io
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from celosia.sw.quantize.litert import open_content
from celosia.sw.quantize.model import FloatModel, QuantizeError, port
from celosia.sw.quantize.pt2 import checked

#: Operators that differ in training, by parts of their names, and the number of the argument.
_MODES = {"batch_norm": 5, "dropout": 2}


def open_model(path: Path) -> FloatModel:
    """Return the network of a ``.pt2`` file.

    Raises QuantizeError if the network was exported in training mode, the file has no example
    inputs, or one of them has a batch of more than 1.
    """
    torch: Any = import_module("torch")
    litert_torch: Any = import_module("litert_torch")
    program = torch.export.load(io.BytesIO(checked(path)))
    if trains(program.graph.nodes):
        raise QuantizeError("exported in training mode; call net.eval() before torch.export")
    if program.example_inputs is None or program.example_inputs[1]:
        raise QuantizeError("wanted a program exported with positional example inputs")
    example = program.example_inputs[0]
    for array, node in zip(example, _inputs(program), strict=True):
        if not torch.is_tensor(array):
            raise QuantizeError(f"input {node.name}: wanted a tensor, got {type(array).__name__}")
        # An extent that is not fixed is a symbol.
        shape = [n if isinstance(n, int) else -1 for n in node.meta["val"].shape]
        port(node.name, shape, str(array.dtype).removeprefix("torch."))
    example = tuple(array[:1] for array in example)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "float.tflite"
        litert_torch.convert(program.module(), example).export(str(file))
        return open_content(file.read_bytes())


def trains(nodes: Iterable[Any]) -> bool:
    """Return True if a network was exported in training mode, without ``net.eval()``.

    ``nodes``: those of the program's graph. A normalisation without running averages, which takes
    the batch's own in both modes, does not count.
    """
    for node in nodes:
        for part, number in _MODES.items():
            on = part in str(node.target) and node.args[number : number + 1] == (True,)
            if on and (part != "batch_norm" or node.args[3] is not None):
                return True
    return False


def _inputs(program: Any) -> list[Any]:
    """Return the nodes of the inputs in the program's graph."""
    names = program.graph_signature.user_inputs
    return [node for node in program.graph.nodes if node.name in names]
