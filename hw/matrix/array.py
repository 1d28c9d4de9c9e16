"""Systolic array: rows of cells, and the skew of their inputs."""

from itertools import accumulate
from typing import Any

from amaranth.hdl import Module, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import Signature

from celosia.hw.lib.component import Bundle, Component, In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.matrix.cell import CELLS, Cell, LogicCell

#: Rows that share a register of the weight buses.
_BLOCK = 8


def row_cells(*, columns: int, dsp_columns: int, cells: str) -> list[type[Cell]]:
    """Return the kinds of the cells of a row from west to east; see ``SystolicArray``."""
    kind = CELLS[cells]
    paired = [kind] * (dsp_columns // kind.COLUMNS)
    return paired + [LogicCell] * (columns - len(paired) * kind.COLUMNS)


def placed(kinds: list[type[Cell]]) -> list[tuple[int, type[Cell], range]]:
    """Return number, kind and columns of each cell of a row."""
    firsts = accumulate((kind.COLUMNS for kind in kinds), initial=0)
    return [
        (n, kind, range(first, first + kind.COLUMNS))
        for n, (kind, first) in enumerate(zip(kinds, firsts, strict=False))
    ]


class _RowPorts:
    def __init__(self, kinds: list[type[Cell]], sum_bits: int) -> None:
        sums = data.ArrayLayout(signed(sum_bits), sum(kind.COLUMNS for kind in kinds))
        self.act = In(signed(8))
        self.switch = In(1)
        self.load = In(1)
        self.weights = In(buses(kinds))
        self.sums_in = In(sums)
        self.sums_out = Out(sums)
        super().__init__()


class RowPorts(_RowPorts, Bundle):
    """Ports of ``Row``."""


class Row(_RowPorts, Component):
    """One row of the array: cells side by side.

    Parameters
    ----------
    kinds : list of type of Cell
        See ``row_cells``.
    sum_bits : int
        See ``SystolicArray``.

    Members
    -------
    act, switch, load : In(signed(8)), In(1), In(1)
        ``act_in``, ``switch_in`` and ``load_in`` of the westernmost ``Cell``.
    weights : In(``buses(kinds)``)
        Weight buses; member ``n`` is the bus of cell ``n``.
    sums_in, sums_out : In / Out(ArrayLayout(signed(sum_bits), columns))
        Partial sums from the row above, to the row below, see ``Cell.separated``.

    Timing
    ------
    A cell whose first column is ``j`` works ``j`` cycles after the westernmost one.
    """

    def __init__(self, *, kinds: list[type[Cell]], sum_bits: int) -> None:
        self.kinds = kinds
        self.sum_bits = sum_bits
        super().__init__(kinds, sum_bits)

    @staticmethod
    def ports(kinds: list[type[Cell]], sum_bits: int) -> Signature:
        """Return the signature of a row."""
        return RowPorts(kinds, sum_bits)

    def cell(self, m: Module, kind: type[Cell], name: str) -> Any:
        """Add a cell; return it, or an interface with its ports."""
        m.submodules[name] = cell = kind(sum_bits=self.sum_bits)
        return cell

    def elaborate(self, platform: object) -> Module:
        m = Module()
        act, switch, load = self.act, self.switch, self.load
        for n, kind, columns in placed(self.kinds):
            cell = self.cell(m, kind, f"cell_{columns[0]}")
            m.d.comb += [
                cell.act_in.eq(act),
                cell.switch_in.eq(switch),
                cell.load_in.eq(load),
                cell.weights.eq(self.weights[str(n)]),
            ]
            for k, column in enumerate(columns):
                m.d.comb += [
                    cell.sums_in[k].eq(self.sums_in[column]),
                    self.sums_out[column].eq(cell.sums_out[k]),
                ]
            act, switch, load = cell.act_out, cell.switch_out, cell.load_out
        return m


def buses(kinds: list[type[Cell]]) -> data.StructLayout:
    """Return the layout of the weight buses of a row; member ``n`` is the bus of cell ``n``."""
    return data.StructLayout({str(n): kind.BUS_BITS for n, kind in enumerate(kinds)})


class SystolicArray(Component):
    """Weight-stationary systolic array of ``rows`` × ``columns`` cells.

    Parameters
    ----------
    rows, columns : int
        Numbers of rows and columns: a row for each tap, a column for each output channel.
    weight_rows : int
        Rows that load at once: the rows are split into so many segments of consecutive rows, each
        with its weight buses. Divides ``rows``.
    dsp_columns : int
        Number of columns, from 0 on, whose cells may use hardware multipliers.
    cells : str
        Name in ``CELLS`` of the cells of those columns.

    Members
    -------
    switch : In(1)
        The weights loaded last become active for the activations of the next cycle on.
    activations : In(ArrayLayout(signed(8), rows))
        One activation for each row, all of one pixel. The array delays row ``r`` by ``r`` cycles.
    weights : In(ArrayLayout(ArrayLayout(signed(8), columns), weight_rows))
        Weight buses of each segment; column ``j`` comes ``j`` cycles after column 0.
    load : In(rows)
        Bit ``r``: row ``r`` takes its shadow weights; column 0 takes the bus of the cycle before.
    sums : Out(ArrayLayout(signed(sum_bits), columns))
        Sums of products; column ``j`` comes ``j`` cycles after column 0.

    Timing
    ------
    Column 0 of ``sums`` follows ``activations`` by ``latency`` = rows + 2 cycles. Row ``r`` may
    load its next weights ``r`` cycles after ``switch`` or later.
    """

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        weight_rows: int = 1,
        dsp_columns: int = 0,
        cells: str = "portable",
    ) -> None:
        if rows < 1 or columns < 1:
            raise ValueError(f"rows, columns: wanted at least 1, got {rows}, {columns}")
        if weight_rows < 1 or rows % weight_rows:
            raise ValueError(f"weight_rows: wanted a divisor of rows = {rows}, got {weight_rows}")
        if cells not in CELLS:
            raise ValueError(f"cells: wanted one of {', '.join(CELLS)}, got {cells!r}")
        self.rows = rows
        self.columns = columns
        self.weight_rows = weight_rows
        self.dsp_columns = dsp_columns
        self.cells = cells
        self.kinds = row_cells(columns=columns, dsp_columns=dsp_columns, cells=cells)
        self.sum_bits = 16 + (rows - 1).bit_length()
        self.latency = rows + Cell.LATENCY - 1
        weights = data.ArrayLayout(signed(8), columns)
        self.switch = In(1)
        self.activations = In(data.ArrayLayout(signed(8), rows))
        self.weights = In(data.ArrayLayout(weights, weight_rows))
        self.load = In(rows)
        self.sums = Out(data.ArrayLayout(signed(self.sum_bits), columns))
        super().__init__()

    @staticmethod
    def _delay(m: Module, value: Value, cycles: int, name: str) -> Value:
        """Return a value some cycles later."""
        for cycle in range(cycles):
            delayed = Signal(value.shape(), name=f"{name}_{cycle + 1}", reset_less=True)
            m.d.sync += delayed.eq(value)
            value = delayed
        return value

    def _bus(self, name: str, **settings: Any) -> Any:
        """Return a signal for the weight buses of a row."""
        return Signal(buses(self.kinds), name=name, **settings)

    def _buses(self, m: Module) -> list[data.View]:
        """Return the weight buses of each row.

        A cell takes the weights of its columns together, one cycle after its load, from a register
        that ``_BLOCK`` rows share. The first column waits one cycle for the second; in a cell of
        one column too, so that all kinds have the same timing.
        """
        copies = []
        segment_rows = self.rows // self.weight_rows
        for s in range(self.weight_rows):
            bus = self._bus(f"buses_{s}")
            for n, kind, columns in placed(self.kinds):
                weights = [
                    self._delay(m, self.weights[s][column], 1 - k, f"weight_{s}_{column}")
                    for k, column in enumerate(columns)
                ]
                m.d.comb += bus[str(n)].eq(kind.pack(weights))
            for first in range(0, segment_rows, _BLOCK):
                late = self._bus(f"buses_{s}_{first}", reset_less=True, attrs=COPY)
                m.d.sync += late.eq(bus)
                copies += [late] * min(_BLOCK, segment_rows - first)
        return copies

    def row(self, m: Module, name: str) -> Any:
        """Add a row; return it, or an interface with its ports."""
        m.submodules[name] = row = Row(kinds=self.kinds, sum_bits=self.sum_bits)
        return row

    def elaborate(self, platform: object) -> Module:
        m = Module()
        switch: Value = self.switch
        sums: data.View | None = None
        weights = self._buses(m)
        for i in range(self.rows):
            row = self.row(m, f"row_{i}")
            if i:
                switch = self._delay(m, switch, 1, f"switch_{i}")
            m.d.comb += [
                row.act.eq(self._delay(m, self.activations[i], i, f"act_{i}")),
                row.switch.eq(switch),
                row.load.eq(self.load[i]),
                row.weights.eq(weights[i]),
            ]
            if sums is not None:
                m.d.comb += row.sums_in.eq(sums)
            sums = row.sums_out
        assert sums is not None
        for _, kind, columns in placed(self.kinds):
            totals = kind.separated([sums[column] for column in columns])
            for k, column in enumerate(columns):
                late = self._delay(m, totals[k], k, f"sum_{column}")
                m.d.comb += self.sums[column].eq(late)
        return m
