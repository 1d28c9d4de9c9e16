"""Operators that move nothing, or only where the bytes cannot stay where they are."""

from dataclasses import replace

from celosia.sw.compiler.errors import CompileError
from celosia.sw.compiler.lowering import Lowering, View
from celosia.sw.compiler.quantize import identity_scaling
from celosia.sw.compiler.shapes import RESHAPES
from celosia.sw.ir.graph import Operation

__all__ = ["pad", "reshape"]


#: Operators that read all bytes in a row, whatever the shape of what they read.
_OF_BYTES = {"FULLY_CONNECTED", *RESHAPES}


def reshape(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower RESHAPE: the same bytes, moved only out of padding, or where a vector becomes an image.

    Raises
    ------
    CompileError
        For images that become images of another shape.
    """
    number = operation.outputs[0]
    view = lowering.view(operation)
    if not lowering.covers(view):
        lowering.copy(operation, number, view)
        view = lowering.views[number]
    value = lowering.values[view.value]
    wanted, got = lowering.shapes[number], (value.height, value.width, value.channels)
    image = len(lowering.graph.tensors[number].shape) == 4
    kinds = {reader.kind for reader in lowering.readers.get(number, [])}
    if wanted == got or not image or kinds <= _OF_BYTES:
        lowering.views[number] = view
    elif value.height == 1:
        seen = View(view.value, 0, 0, *wanted[:2])
        windows, scalings = lowering.each(seen), [identity_scaling()]
        lowering.vector(
            operation, number, operation.kind, seen, windows, scalings, wanted, seen=wanted
        )
    else:
        raise CompileError(f"wanted one shape of images, got {got} and {wanted}")


def pad(lowering: Lowering, operation: Operation, label: str) -> None:
    """Lower PAD: a view that reaches past the value's edges, where the zero point stands.

    Another constant takes a copy with that around it, and one that is read as a whole.

    Raises
    ------
    CompileError
        If other dimensions than rows and columns are padded.
    """
    number = operation.outputs[0]
    view = lowering.view(operation)
    before, after = operation.attributes["before"], operation.attributes["after"]
    if len(before) != 4 or before[0] or after[0] or before[3] or after[3]:
        raise CompileError(f"wanted padding of rows and columns, got {before, after}")
    constant = operation.attributes["value"]
    other = constant != lowering.values[view.value].fill
    if other:
        around = lowering.copy(operation, number, view)
        lowering.values[around] = replace(lowering.values[around], fill=constant)
        view = lowering.views[number]
    lowering.views[number] = View(
        view.value,
        view.top - before[1],
        view.left - before[2],
        view.height + before[1] + after[1],
        view.width + before[2] + after[2],
    )
    if other:
        lowering.copy(operation, number, lowering.views[number])
