"""Shapes of one sample of the tensors that a graph computes, and windows over them.

A window of a pooling that reaches past the edge counts only elements inside, so windows at edges
are smaller. Equal ones are grouped into rectangles.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from celosia.sw.ir.graph import Graph, short_name
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.spec import Windows

#: Operators that multiply rows by a matrix.
DENSE = ("FULLY_CONNECTED", "QLinearMatMul")

#: Operators that give the same bytes another shape.
RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")

#: Operators of training steps, whose images of a batch are one row of pixels, and those that may
#: stand between them.
STEPS = frozenset(
    {
        *("ShiftedSum", "ShiftedConvolution", "TurnedConvolution", "ShiftedCorrelation"),
        *("MaskedErrors", "MaximumErrors", "RepeatedErrors", "ShiftedProduct", "SoftmaxErrors"),
        *("TakenRows", "JoinedRows"),
    }
)
OF_STEPS = STEPS.union({*RESHAPES, "AVERAGE_POOL_2D", "MAX_POOL_2D"})

#: Operators that read all bytes in a row, whatever the shape of their input.
OF_BYTES = frozenset({*DENSE, *RESHAPES})

#: Operators that take an image from the bytes of a row.
OF_ROWS = frozenset({"BATCH_MATMUL", "TRANSPOSE"})


def items_of(graph: Graph, without: Container[int] = ()) -> int:
    """Return the model's own batch: the first extent, if all operators keep samples apart.

    Operators with numbers in ``without`` are assumed to do so. Computed weights have no sample.
    """
    ends = [graph.tensors[number] for number in (*graph.inputs, *graph.outputs)]
    first = {tensor.shape[0] if len(tensor.shape) > 1 else 1 for tensor in ends}
    if len(first) != 1:
        return 1
    items = first.pop()
    for operation in graph.operations:
        if operation.place in without:
            continue
        inputs = [graph.tensors[number] for number in operation.inputs if number != -1]
        tensor = next((tensor for tensor in inputs if tensor.data is None), inputs[0])
        row = 1
        if operation.kind in DENSE:
            weights = graph.tensors[operation.inputs[1]]
            if weights.data is None:
                return 1
            row = weights.shape[1]
        if tensor.elements % (items * row):
            return 1
    return items


def shapes_of(graph: Graph, items: int) -> dict[int, tuple[int, int, int]]:
    """Return rows, columns and channels of one sample of each tensor that is computed.

    Tensors of four dimensions are images. Those of three are one row of pixels, as are results of
    matrix products, and all images of a batch in training steps. All others are vectors, one
    pixel. An input that is only reshaped to images is an image, too.
    """
    shapes: dict[int, tuple[int, int, int]] = {}
    step = items == 1 and any(operation.kind in STEPS for operation in graph.operations)
    kinds: dict[int, set[str]] = {}
    for operation in graph.operations:
        for number in (*operation.inputs, *operation.outputs):
            kinds.setdefault(number, set()).add(operation.kind)

    def image(number: int) -> tuple[int, int, int] | None:
        shape = graph.tensors[number].shape
        if len(shape) != 4:
            return None
        if step and kinds[number] <= OF_STEPS:
            return 1, shape[0] * shape[1] * shape[2], shape[3]
        if shape[0] != items:
            name = graph.tensors[number].name
            got = f"wanted a batch of {items}, got shape {shape}"
            raise CompileError(got, layer=f"tensor {short_name(name)!r}")
        return shape[1], shape[2], shape[3]

    def row(number: int) -> tuple[int, int, int]:
        shape, count = graph.tensors[number].shape, graph.tensors[number].elements // items
        depth = shape[-1] if len(shape) == 3 and shape[0] == items else count
        return 1, count // depth, depth

    for number in graph.inputs:
        readers = [o for o in graph.operations if number in o.inputs]
        try:
            reshaped = {image(o.outputs[0]) for o in readers if o.kind in RESHAPES}
            alone = len(reshaped) == 1 and all(o.kind in RESHAPES for o in readers)
            shapes[number] = image(number) or (reshaped.pop() if alone else None) or row(number)
        except CompileError as error:
            error.place = readers[0].place if readers else None
            raise
    for operation in graph.operations:
        for number in operation.outputs:
            tensor = graph.tensors[number]
            depth = 0
            if operation.kind in DENSE:
                depth = graph.tensors[operation.inputs[1]].shape[0]
            elif operation.kind == "BATCH_MATMUL":
                depth = tensor.shape[-1]
            pixels = depth and (1, tensor.elements // items // depth, depth)
            try:
                shapes[number] = image(number) or pixels or row(number)
            except CompileError as error:
                error.place = operation.place
                raise
    return shapes


@dataclass(frozen=True)
class Axis:
    """Windows along rows or columns."""

    start: int  #: First element of the first window, below zero before the edge.
    #: Elements from one window to the next, number of windows, and elements of each.
    stride: int
    count: int
    size: int
    extent: int  #: Elements of the source.

    @property
    def inside(self) -> bool:
        """True if no window reaches past an edge."""
        last = self.start + (self.count - 1) * self.stride
        return self.start >= 0 and last + self.size <= self.extent


@dataclass(frozen=True)
class _Group:
    result: int
    count: int
    source: int
    size: int


def padding(kind: str, extent: int, size: int, stride: int, count: int) -> int:
    """Return the elements before the edge: for ``SAME`` half of all, rounded down; else none.

    ``size`` spans the window from its first to its last element.
    """
    if kind == "VALID":
        return 0
    return max((count - 1) * stride + size - extent, 0) // 2


def _runs(axis: Axis) -> Iterator[_Group]:
    """Yield groups of windows of one size that follow one another at the stride."""
    run: _Group | None = None
    for result in range(axis.count):
        start = axis.start + result * axis.stride
        first, last = max(start, 0), min(start + axis.size, axis.extent)
        if run and run.size == last - first and first == run.source + run.count * axis.stride:
            run = replace(run, count=run.count + 1)
            continue
        if run:
            yield run
        run = _Group(result, 1, first, last - first)
    if run:
        yield run


def _stretches(indices: Sequence[int], stride: int) -> Iterator[_Group]:
    """Yield groups of indices that follow one another at the stride."""
    first = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + stride:
            yield _Group(first, place - first, indices[first], 1)
            first = place


def taken(
    rows: Sequence[int],
    columns: Sequence[int],
    stride: tuple[int, int],
    top: int = 0,
    left: int = 0,
) -> tuple[Windows, ...]:
    """Return windows of one pixel: row and column in a source at ``top``, ``left``, by result."""
    return _all_pairs(_stretches(rows, stride[0]), _stretches(columns, stride[1]), top, left)


def rectangles(axes: Sequence[Axis], top: int = 0, left: int = 0) -> tuple[Windows, ...]:
    """Return windows along rows and columns; the source starts at row ``top``, column ``left``."""
    rows, columns = axes
    return _all_pairs(_runs(rows), _runs(columns), top, left)


def _all_pairs(
    rows: Iterator[_Group], columns: Iterator[_Group], top: int, left: int
) -> tuple[Windows, ...]:
    return tuple(
        Windows(
            result=(y.result, x.result),
            count=(y.count, x.count),
            source=(top + y.source, left + x.source),
            size=(y.size, x.size),
        )
        for y, x in product(rows, columns)
    )
