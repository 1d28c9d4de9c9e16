"""Layers of products with large matrices of weights, some rows or columns of them at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from celosia.sw.layers.grids import Group, Reads
from celosia.sw.layers.shifted import Matrix, ShiftedLayers
from celosia.sw.layers.spec import DynamicProduct, Range
from celosia.sw.layers.values import Scaling

#: Bytes of a matrix, or of blocks, that are loaded at once if they can be loaded apart; those of a
#: block that is updated at once.
_LOADED, _UPDATED = 1 << 15, 1 << 14
#: Rows of a part are a multiple, so that columns of noise repeat as in the result.
_ALIGNED = 16


class DenseLayers:
    """Layers of a product with blocks of weights, or with one.

    - ``layers``, ``scaling``: of the operation. ``addends``: matrices and factors.
    - ``operands``: tensors of the first matrix, and of the blocks of the second one.
    """

    def __init__(
        self,
        layers: ShiftedLayers,
        scaling: Scaling,
        operands: Sequence[int],
        addends: Sequence[tuple[Matrix, int]],
    ) -> None:
        self.layers, self.scaling, self.addends = layers, scaling, addends
        self.lowering, self.operands = layers.lowering, operands
        shapes = [self.lowering.graph.tensors[number].shape for number in operands[1:]]
        #: Rows of a block, and columns of all.
        self.second = shapes[0][1], sum(shape[2] for shape in shapes)

    @property
    def is_large(self) -> bool:
        """True if the weights are loaded some rows at a time, wherever they can be."""
        are_inputs = all(number in self.lowering.graph.inputs for number in self.operands[1:])
        return are_inputs and is_large(*self.second)

    def results(self, extents: tuple[int, int]) -> None:
        """Add a product by blocks of columns, with addends.

        Blocks of inputs that are whole tiles are stored, if there are no addends.
        """
        x, lowering = self.layers.matrix(self.operands[0]), self.lowering
        result = self.whole(*extents)
        widths = [lowering.graph.tensors[number].shape[2] for number in self.operands[1:]]
        start = 0
        for number, width in zip(self.operands[1:], widths, strict=True):
            if number in lowering.graph.inputs and width == max(widths) and not self.addends:
                self.layers.stored_product(self.scaling, x, number, result, start)
            else:
                fields = {"result": result, "first_channel": start}
                pair = x, self.layers.matrix(number)
                self.layers.sums(self.scaling, pair, self.columns(start), **fields)
            start += width

    def columns(self, start: int) -> list[tuple[Matrix, int]]:
        """Return the addends of columns from ``start`` on."""
        return [(replace(matrix, first=start), factor) for matrix, factor in self.addends]

    def errors(self) -> None:
        """Add a product by the columns of several blocks, which are added.

        Some rows of all blocks, which are columns of the result, are loaded at a time.
        """
        layers, (rows, total) = self.layers, self.second
        first, *blocks = [layers.matrix(number) for number in self.operands]
        taps = blocks[0].columns
        groups = tuple(
            Group(column=number * taps, block=number, missing=taps - block.columns)
            for number, block in enumerate(blocks)
        )
        reads = Reads((1, 1, first.rows), (0, 0, 1), taps, groups)
        first = layers.rows(first)
        apart = self.is_large
        count = max(1, _LOADED // total // _ALIGNED) * _ALIGNED if apart else rows
        is_stored = apart and is_large(rows, first.rows)
        if is_stored:
            # Its columns, too, are in the unified buffer some at a time.
            count = min(count, max(1, _LOADED // first.rows // _ALIGNED) * _ALIGNED)
            result = layers.together(first.rows, rows, is_input=True)
        else:
            result = self.whole(first.rows, rows)
        for start in range(0, rows, count):
            some = start, min(start + count, rows)
            parts = [layers.part(block, some) for block in blocks] if apart else blocks
            layers.sums(
                self.scaling,
                (first, parts[0]),
                self.columns(start),
                turned=(False, True),
                reads=reads,
                blocks=[layers.turned(block).value for block in parts[1:]],
                result=layers.stored(result, columns=some) if is_stored else result,
                first_channel=0 if is_stored else start,
            )

    def update(self, extents: tuple[int, int], columns: Range, records: int) -> None:
        """Add the update of a block by a product with stepped sums, some rows at a time."""
        x, e = (self.layers.matrix(number) for number in self.operands)

        def add(some: Range, result: Matrix) -> None:
            self.layers.sums(
                self.scaling,
                (self.layers.part(x, columns=some), e),
                [(self.layers.part(m, rows=some), factor) for m, factor in self.addends],
                turned=(True, False),
                columns=columns,
                stepped=records,
                result=result,
            )

        # High and low bytes of two parts are in the unified buffer at a time.
        cut = parts_of(extents[0], max(4 * extents[1], x.rows))
        update_in_parts(self.layers, self.scaling, extents, cut, add)

    def in_parts(self) -> None:
        """Add a product by one matrix, of which some rows are loaded at a time."""
        layers = self.layers
        x, weights = (layers.matrix(number) for number in self.operands)
        pairs = [
            (layers.part(x, columns=some), layers.part(weights, rows=some))
            for some in parts_of(weights.rows, max(x.rows, weights.columns), even=True)
        ]
        layers.sums(self.scaling, pairs[0], self.addends, pairs=pairs[1:])

    def whole(self, rows: int, columns: int) -> Matrix:
        """Return the result as a value that the unified buffer holds."""
        number = self.layers.operation.outputs[0]
        return Matrix(self.lowering.add(number, (1, rows, columns)), rows, columns)


def is_large(rows: int, columns: int) -> bool:
    """Return whether a matrix is loaded, or made, some rows or columns at a time if it can be."""
    return rows * columns > _LOADED


def is_updated_in_parts(rows: int, columns: int) -> bool:
    """Return whether a block of weights is updated some rows at a time."""
    return rows * columns > _UPDATED


def update_in_parts(
    layers: ShiftedLayers,
    scaling: Scaling,
    extents: tuple[int, int],
    cut: Sequence[Range],
    add: Callable[[Range, Matrix], None],
    *,
    by_columns: bool = False,
) -> None:
    """Add layers that update some rows, or columns, of weights at a time.

    The high and the low bytes of these are made of the same sums. ``add``: adds the layer of some,
    with its result.
    """
    operation, lowering = layers.operation, layers.lowering
    result = layers.together(*extents, is_input=False)
    earlier = lowering.updates.pop(operation.inputs, [])
    for place, some in enumerate(cut):
        part = layers.stored(result, **{"columns" if by_columns else "rows": some})
        if not earlier:
            add(some, part)
            lowering.updates.setdefault(operation.inputs, []).append(lowering.layers[-1])
            continue
        before = earlier[place]
        assert isinstance(before, DynamicProduct)
        scalings = scaling, before.scalings[1]
        fields = {"result": part.value, "scalings": scalings, "place": operation.place}
        again = replace(before, **fields, shares=True)
        lowering.layers.insert(lowering.layers.index(before) + 1, again)


def parts_of(rows: int, pitch: int, *, even: bool = False) -> list[Range]:
    """Return rows of some bytes in parts.

    Parts are ``even``, or a multiple of rows but for the last.
    """
    count = -(-rows * pitch // _LOADED)
    if even:
        count = next(n for n in range(count, rows + 1) if rows % n == 0)
    length = rows // count if even else -(-rows // (count * _ALIGNED)) * _ALIGNED
    return [(start, min(start + length, rows)) for start in range(0, rows, length)]
