"""Layers of shifted sums: products of two computed matrices, and addends times factors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from celosia.hw.arch.isa import Rounding, Window
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.labels import layer_name
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.grids import Addend, Grid, Reads, Repeats
from celosia.sw.layers.lowering import Lowering, View
from celosia.sw.layers.spec import (
    DynamicProduct,
    Layer,
    MatrixLayer,
    Padded,
    Pool,
    Pooling,
    Range,
    Windows,
)
from celosia.sw.layers.values import Scaling, Value, uniform_scaling

#: With a shift of one to the left, this multiplier is one.
_ONE, _LEFT = 1 << 30, 1

#: An input of so many bytes is loaded again after so many layers: its bytes are free between.
_LARGE, _NEAR = 1 << 12, 6


def shift_scaling(
    shift: int,
    *,
    bias: int = 0,
    rounding: str = "UP",
    kept_bits: int = 0,
    zero_point: int = 0,
    low: int = -128,
    high: int = 127,
) -> Scaling:
    """Return the parameters that shift sums: see ``operators.shifted.shifted``."""
    # A shift to the left wraps with DOUBLE alone; with kept bits nothing is left to round.
    way = Rounding.SINGLE if rounding == "UP" and not kept_bits else Rounding.DOUBLE
    scaling = uniform_scaling(bias, (_ONE, _LEFT), way, (zero_point, low, high))
    if kept_bits:
        # The shift to the left drops the bits above; the sign is that of the highest one left.
        left, right = 32 - kept_bits, 31 - kept_bits
    elif rounding == "HALVED":
        # As LiteRT: half of the sum is rounded, then the rest of the shift.
        left, right = max(0, 1 - shift), max(0, shift - 1)
    else:
        left, right = _LEFT + max(0, -shift), max(0, shift)
    return replace(scaling, left=scaling.left * 0 + left, right=scaling.right * 0 + right)


@dataclass(frozen=True)
class Matrix:
    """Matrix in a value: all of it, rows one after the other."""

    value: int
    rows: int
    columns: int
    #: Of an addend: column that is added to the first channel, and repeats of its rows.
    first: int = 0
    repeats: Repeats | None = None


class ShiftedLayers:
    """Layers of one operation, in order; the last makes its result."""

    def __init__(self, lowering: Lowering, operation: Operation) -> None:
        self.lowering, self.operation = lowering, operation

    def matrix(self, number: int) -> Matrix:
        """Return a tensor as a matrix; raises CompileError if the core does not compute it."""
        lowering = self.lowering
        shape, data = lowering.graph.tensors[number].shape, lowering.graph.tensors[number].data
        if data is not None:
            return self.constant(data.reshape(-1, shape[-1]))
        if number not in lowering.views:
            raise CompileError("wanted inputs that the core computes")
        view = self.reloaded(number)
        value = lowering.values[view.value]
        if value.height > 1 or not lowering.covers(view):
            raise CompileError("wanted inputs of one row")
        return Matrix(view.value, value.bytes_per_item // shape[-1], shape[-1])

    def reloaded(self, number: int) -> View:
        """Return the view of a tensor; an input that was last read long ago is loaded again."""
        lowering = self.lowering
        view = lowering.views[number]
        value = lowering.values[view.value]
        if value.bytes_per_item < _LARGE or number not in lowering.states:
            return view
        uses = [n for n, layer in enumerate(lowering.layers) if view.value in layer.sources]
        if not uses or len(lowering.layers) - uses[-1] <= _NEAR:
            return view
        original = view.value if value.original < 0 else value.original
        lowering.values.append(replace(value, original=original, spread=False))
        lowering.views[number] = replace(view, value=len(lowering.values) - 1)
        return lowering.views[number]

    def part(
        self, matrix: Matrix, rows: Range | None = None, columns: Range | None = None
    ) -> Matrix:
        """Return some rows or columns of a matrix, which are loaded apart."""
        values = self.lowering.values
        value = values[matrix.value]
        if not value.is_input:
            values[matrix.value] = replace(value, is_output=True)
        (row, last), (column, end) = rows or (0, matrix.rows), columns or (0, matrix.columns)
        original = matrix.value if value.original < 0 else value.original
        offset = value.offset + row * matrix.columns + column
        pitch = matrix.columns if columns else 0
        shape = {"height": 1, "width": last - row, "channels": end - column, "spread": False}
        place = {"original": original, "offset": offset, "pitch": pitch}
        values.append(replace(value, **shape, **place, is_input=True, is_output=False))
        return replace(matrix, value=len(values) - 1, rows=last - row, columns=end - column)

    def together(self, rows: int, columns: int, *, is_input: bool) -> Matrix:
        """Return the result as a value that layers store in parts: see ``stored``.

        ``is_input``: whether layers load it.
        """
        lowering, (number,) = self.lowering, self.operation.outputs
        name = lowering.graph.tensors[number].name
        value = Value(name=name, height=1, width=rows, channels=columns, is_input=is_input)
        lowering.values.append(value)
        lowering.views[number] = View(len(lowering.values) - 1, 0, 0, 1, rows)
        return Matrix(len(lowering.values) - 1, rows, columns)

    def stored(self, matrix: Matrix, **some: Range) -> Matrix:
        """Return some ``rows`` or ``columns`` of a matrix as a result that is stored."""
        part = self.part(matrix, **some)
        value = self.lowering.values[part.value]
        self.lowering.values[part.value] = replace(value, is_input=False, is_output=True)
        return part

    def in_turn(self, matrix: Matrix, *, spread: bool = False) -> Matrix:
        """Return a matrix that is stored, and loaded again when its pair is multiplied."""
        values = self.lowering.values
        value = values[matrix.value]
        if value.contents is not None:
            return matrix
        if not value.is_input:
            values[matrix.value] = replace(value, is_output=True)
        original = matrix.value if value.original < 0 else value.original
        copy = replace(value, height=1, width=matrix.rows, channels=matrix.columns, spread=spread)
        copy = replace(copy, original=original, is_input=True, is_output=False)
        if copy in self.lowering.in_turn:
            return replace(matrix, value=self.lowering.in_turn[copy])
        values.append(copy)
        return replace(matrix, value=len(values) - 1)

    def stored_product(
        self, scaling: Scaling, matrix: Matrix, number: int, result: Matrix, first: int
    ) -> None:
        """Add a product by an input whose bytes are tiles; it does not pass the unified buffer."""
        lowering, operation = self.lowering, self.operation
        _, taps, channels = lowering.graph.tensors[number].shape
        wide = np.ones(channels, np.int64)
        names = ("bias", "multiplier", "left", "right")
        parameters = {name: getattr(scaling, name) * wide for name in names}
        lowering.layers.append(
            MatrixLayer(
                name=layer_name(lowering.graph.tensors, operation),
                kind=operation.kind,
                place=operation.place,
                source=matrix.value,
                result=result.value,
                first=first,
                origin=(0, 0),
                kernel=(1, 1),
                stride=(1, 1),
                dilation=(1, 1),
                grid=(1, matrix.rows),
                pool=Pool(window=(1, 1), stride=(1, 1)),
                weights=np.zeros((channels, 1, 1, taps), np.int8),
                scaling=replace(scaling, **parameters),
                macs=matrix.rows * taps * channels,
                stored=lowering.views[number].value,
            )
        )

    def padded(self, matrix: Matrix, images: Sequence[int], grid: Grid, spread: bool) -> Matrix:
        """Return images on a grid, copied unless they were; ``images``: number, rows, columns."""
        seen = images[0] * images[1], images[2], matrix.columns
        return self.copied(matrix, seen, grid, spread)

    def diagonals(self, matrix: Matrix, spread: bool) -> Matrix:
        """Return square matrices, one after the other: each row of a matrix is a diagonal."""
        grid = Grid(matrix.rows, matrix.columns, 1, (0, 0), diagonal=True)
        return self.copied(matrix, (matrix.rows, matrix.columns, 1), grid, spread)

    def copies(self, matrix: Matrix, grid: Grid) -> list[Layer]:
        """Return the layers that copy a matrix to a grid."""
        layers = (layer for layer in self.lowering.layers if isinstance(layer, Padded))
        return [x for x in layers if (x.source, x.grid) == (matrix.value, grid)]

    def filled(self, matrix: Matrix, image: tuple[int, int]) -> tuple[int, int]:
        """Return the first rows and columns of images beside which a matrix has zeros alone."""
        for layer in self.lowering.layers:
            if isinstance(layer, DynamicProduct) and layer.result == matrix.value and layer.grid:
                return layer.image
        return image

    def copied(
        self, matrix: Matrix, seen: tuple[int, int, int], grid: Grid, spread: bool
    ) -> Matrix:
        """Return a matrix on a grid, copied unless it was; ``seen``: rows of all images."""
        lowering, operation = self.lowering, self.operation
        for layer in self.copies(matrix, grid):
            if lowering.values[layer.result].spread == spread:
                return Matrix(layer.result, grid.pixels, matrix.columns)
        everything = Windows(result=(0, 0), count=(1, grid.pixels), source=(0, 0), size=(1, 1))
        shape = 1, grid.pixels, matrix.columns
        layer = Padded(
            name=layer_name(lowering.graph.tensors, operation),
            kind=operation.kind,
            place=operation.place,
            source=matrix.value,
            result=lowering.add(operation.outputs[0], shape),
            combine=Window.MAX,
            stride=(1, 1),
            windows=(everything,),
            scalings=(shift_scaling(0),),
            seen=seen,
            grid=grid,
        )
        lowering.layers.append(layer)
        value = lowering.values[layer.result]
        lowering.values[layer.result] = replace(value, spread=spread)
        return Matrix(layer.result, grid.pixels, matrix.columns)

    def input(self, number: int) -> int:
        """Return the value of an input of the core's part that is not read as a matrix."""
        if number not in self.lowering.graph.inputs:
            raise CompileError("wanted parameters that the host writes")
        return self.lowering.views[number].value

    def constant(self, contents: np.ndarray) -> Matrix:
        """Return a constant matrix, int8."""
        rows, columns = contents.shape
        contents = contents.reshape(1, rows, columns).astype(np.int8)
        for number, value in enumerate(self.lowering.values):
            if value.contents is not None and np.array_equal(value.contents, contents):
                return Matrix(number, rows, columns)
        view = self.lowering.constant(self.operation.outputs[0], contents)
        return Matrix(view.value, rows, columns)

    def turned(self, matrix: Matrix) -> Matrix:
        """Return a matrix that is read by columns: its pixels lie spread in the banks."""
        lowering = self.lowering
        value = lowering.values[matrix.value]
        if value.channels != matrix.columns:
            return self.turned(self.rows(matrix))
        lowering.values[matrix.value] = replace(value, spread=True)
        return matrix

    def rows(self, matrix: Matrix) -> Matrix:
        """Return a copy of a matrix whose pixels are its rows, which may exist."""
        lowering, shape = self.lowering, (1, matrix.rows, matrix.columns)
        if lowering.values[matrix.value].channels == matrix.columns:
            return matrix
        for layer in lowering.layers:
            if type(layer) is Pooling and (layer.source, layer.seen) == (matrix.value, shape):
                return replace(matrix, value=layer.result)
        view = View(matrix.value, 0, 0, *shape[:2])
        number = lowering.vector(self.operation, view, kind="COPY", seen=shape)
        return replace(matrix, value=number)

    def vector(self, matrix: Matrix, shape: tuple[int, int], **fields: Any) -> Matrix:
        """Add work of the vector unit on a matrix; its result has another shape."""
        value = self.lowering.values[matrix.value]
        view = View(matrix.value, 0, 0, 1, value.width)
        layers = self.lowering.layers
        number = self.lowering.vector(self.operation, view, shape=(1, *shape), **fields)
        # As soon as its source is complete: the vector unit has less to do there than later.
        places = [n + 1 for n, layer in enumerate(layers) if layer.result == matrix.value]
        if places and not getattr(layers[places[-1]], "shares", False):
            layers.insert(places[-1], layers.pop())
        return Matrix(number, *shape)

    def hasten(self, first: int, sources: Sequence[Matrix]) -> None:
        """Move layers, from the ``first`` one on, to where their sources are complete."""
        layers, values = self.lowering.layers, {matrix.value for matrix in sources}
        makers = [n for n, layer in enumerate(layers[:first]) if layer.result in values]
        if len({layers[n].result for n in makers}) == len(values):
            place = makers[-1] + 1
            while place < first and getattr(layers[place], "shares", False):
                place += 1
            layers[place:] = [*layers[first:], *layers[place:first]]

    def sums(
        self,
        scaling: Scaling,
        product: tuple[Matrix, Matrix] | None,
        addends: Sequence[tuple[Matrix, int]] = (),
        *,
        turned: tuple[bool, bool] = (False, False),
        shape: tuple[int, int] | None = None,
        table: np.ndarray | None = None,
        columns: tuple[int, int] | None = None,
        reads: Reads | None = None,
        blocks: Sequence[int] = (),
        pairs: Sequence[tuple[Matrix, Matrix]] = (),
        result: Matrix | None = None,
        first_channel: int = 0,
        stepped: int = -1,
        grid: Grid | None = None,
        image: tuple[int, int] = (0, 0),
    ) -> Matrix:
        """Add shifted sums of a product and addends times factors.

        ``columns``: first and number of those of the second matrix, all unless given; ``reads``:
        windows that are the rows of the first matrix, a grid; ``blocks``: values of further second
        matrices; ``pairs``: further pairs of matrices, whose products are added; ``result``: matrix
        of which the sums are some columns, from ``first_channel`` on; ``stepped``: input of
        parameters that shift the product before addends are added; ``grid``: grid to which the
        results are written, as images of rows and columns ``image``.
        """
        lowering, operation = self.lowering, self.operation
        if product:
            first, second = product
            rows, taps = (first.rows, first.columns)[:: -1 if turned[0] else 1]
            if reads:
                rows, taps = reads.rows, reads.taps
            width = second.rows if turned[1] else second.columns
            column, width = columns or (0, width)
            if turned[0]:
                first = self.turned(first)
            if turned[1]:
                second = self.turned(second)
            product, ends = (first, second), (first.value, second.value)
        else:
            assert shape
            (rows, width), taps, column = shape, 0, 0
            ends = addends[0][0].value, addends[0][0].value
        number, pixels = operation.outputs[0], grid.pixels if grid else rows
        value = result.value if result else lowering.add(number, (1, pixels, width))
        layer = DynamicProduct(
            name=layer_name(lowering.graph.tensors, operation),
            kind=operation.kind,
            place=operation.place,
            source=ends[0],
            second=ends[1],
            result=value,
            first=first_channel,
            matrices=((0,), (0,)),
            rows=rows,
            taps=taps,
            channels=width,
            turned=turned,
            column=column,
            span=product[1].columns if product and columns and not turned[1] else 0,
            output=(1, pixels),
            grid=grid,
            image=image,
            stepped=stepped,
            reads=reads,
            blocks=tuple(blocks),
            pairs=tuple((one.value, other.value) for one, other in pairs),
            scalings=(scaling, shift_scaling(0)),
            addends=tuple(
                Addend(m.value, factor, m.rows, m.columns, m.first, m.repeats)
                for m, factor in addends
                if factor
            ),
            table=table,
        )
        before = lowering.layers[-1] if lowering.layers else None
        lowering.layers.append(replace(layer, shares=_same_sums(before, layer)))
        for number in chain(*layer.turns):
            if lowering.values[number].contents is None:
                lowering.in_turn.setdefault(lowering.values[number], number)
        return Matrix(value, pixels, width)


def _same_sums(before: Layer | None, layer: DynamicProduct) -> bool:
    """Return whether two products have the same sums."""
    if not isinstance(before, DynamicProduct):
        return False
    names = (
        "sources",
        "addends",
        "rows",
        "taps",
        "channels",
        "turned",
        "column",
        "first",
        "stepped",
        "reads",
        "pairs",
    )
    return all(getattr(before, name) == getattr(layer, name) for name in names)
