"""Operators whose numbers leave the reference kernel's results undefined."""

from celosia.sw.compiler.errors import UndefinedError
from celosia.sw.compiler.quantize import activation_range, single_factor
from celosia.sw.ir.graph import Graph, Operation

__all__ = ["want_defined"]

_RELUS = ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1")

#: Operators whose factor is a quotient of scales, and of a product of two in single precision.
_QUOTIENTS = ("ADD", "MEAN", "PRELU", "QUANTIZE", *_RELUS, "SUB")
_PRODUCTS = ("MUL", "PRELU")

#: Places of what is multiplied.
_WEIGHTED = {"FULLY_CONNECTED": (0, 1), "TRANSPOSE_CONV": (2, 1)}


def _factors(graph: Graph, operation: Operation) -> list[float]:
    """Return the greatest real factors that an operator multiplies its integers by."""
    read = [None if n == -1 else graph.tensors[n].quantization for n in operation.inputs]
    output = graph.tensors[operation.outputs[0]].quantization
    found: list[float] = []
    if output is None:
        return found
    if operation.kind in _QUOTIENTS:
        found += [each.scale / output.scale for each in read if each is not None]
    if operation.kind in _PRODUCTS and read[0] is not None and read[1] is not None:
        found.append(single_factor(read[0].scales[0], read[1].scales[0], over=output.scales[0]))
    if operation.kind in _WEIGHTED:
        source, weights = (read[place] for place in _WEIGHTED[operation.kind])
        if source is not None and weights is not None:
            found.append(source.scale * float(weights.scales.max()) / output.scale)
    return found


def want_defined(graph: Graph, operation: Operation) -> None:
    """Refuse an operator of which the reference kernel makes what nobody can say.

    Raises
    ------
    UndefinedError
        If a factor is past 2^30, or a bound of its activation past 32 bits.
    """
    label, place = graph.label(operation), operation.place
    greatest = max(_factors(graph, operation), default=0.0)
    if greatest >= 1 << 30:
        got = f"wanted factors below 2^30, got {greatest:.9g}"
        raise UndefinedError(got, layer=label, place=place)
    output = graph.tensors[operation.outputs[0]].quantization
    if output is not None and "activation" in operation.attributes:
        try:
            activation_range(operation.attributes["activation"], output)
        except UndefinedError as error:
            raise error.at(label, place) from None
