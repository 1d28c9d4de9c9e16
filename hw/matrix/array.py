"""The systolic array: rows of cells, and the skew of what enters them."""

from amaranth.hdl import Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.matrix.cell import Cell


class Row(wiring.Component):
    """One row of the array: ``columns`` cells side by side.

    Parameters
    ----------
    columns, sum_bits : int
        See ``SystolicArray``.
    dsp_columns : int
        The first cells, that may use hardware multipliers.

    Members
    -------
    act, switch, load
        Enter the first cell from the west; see ``Cell``.
    weights : In(ArrayLayout(signed(8), columns))
        One weight bus a column.
    sums_in, sums_out : In / Out(ArrayLayout(signed(sum_bits), columns))
        Partial sums from the row above, to the row below.

    Timing
    ------
    Column ``j`` works ``j`` cycles behind column 0, which is a ``Cell``.
    """

    act: Signal
    switch: Signal
    load: Signal
    weights: data.View
    sums_in: data.View
    sums_out: data.View

    def __init__(self, *, columns: int, sum_bits: int, dsp_columns: int) -> None:
        self.columns = columns
        self.sum_bits = sum_bits
        self.dsp_columns = dsp_columns
        sums = data.ArrayLayout(signed(sum_bits), columns)
        super().__init__(
            {
                "act": In(signed(8)),
                "switch": In(1),
                "load": In(1),
                "weights": In(data.ArrayLayout(signed(8), columns)),
                "sums_in": In(sums),
                "sums_out": Out(sums),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        act, switch, load = self.act, self.switch, self.load
        for j in range(self.columns):
            cell = Cell(sum_bits=self.sum_bits, dsp=j < self.dsp_columns)
            m.submodules[f"cell_{j}"] = cell
            m.d.comb += [
                cell.act_in.eq(act),
                cell.switch_in.eq(switch),
                cell.load_in.eq(load),
                cell.weight.eq(self.weights[j]),
                cell.sum_in.eq(self.sums_in[j]),
                self.sums_out[j].eq(cell.sum_out),
            ]
            act, switch, load = cell.act_out, cell.switch_out, cell.load_out
        return m


class SystolicArray(wiring.Component):
    """Weight-stationary systolic array of ``rows`` × ``columns`` cells.

    Parameters
    ----------
    rows, columns : int
        Cells: one tap a row, one output channel a column.
    weight_rows : int
        Segments of consecutive rows, each with weight buses of its own. Divides ``rows``.
    dsp_columns : int
        The first columns, whose cells may use hardware multipliers.

    Members
    -------
    switch : In(1)
        The weights loaded last become active for the activations of the next cycle on.
    activations : In(ArrayLayout(signed(8), rows))
        One activation a row, all of the same pixel.
    weights : In(ArrayLayout(ArrayLayout(signed(8), columns), weight_rows))
        Weight buses of each segment; column ``j`` comes ``j`` cycles behind column 0.
    load : In(rows)
        Bit ``r`` takes the buses of row ``r``'s segment into that row, column 0 in this cycle.
    sums : Out(ArrayLayout(signed(sum_bits), columns))
        Sums of products; column ``j`` comes ``j`` cycles behind column 0.

    Timing
    ------
    Column 0 of ``sums`` follows ``activations`` by ``latency`` = rows + 1 cycles. A row ``r`` may
    load its next weight from ``r`` cycles after ``switch`` on (in that very cycle too).
    """

    switch: Signal
    activations: data.View
    weights: data.View
    load: Signal
    sums: data.View

    def __init__(
        self, *, rows: int, columns: int, weight_rows: int = 1, dsp_columns: int = 0
    ) -> None:
        if rows < 1 or columns < 1:
            raise ValueError(f"rows, columns: wanted at least 1, got {rows}, {columns}")
        if weight_rows < 1 or rows % weight_rows:
            raise ValueError(f"weight_rows: wanted a divisor of rows = {rows}, got {weight_rows}")
        self.rows = rows
        self.columns = columns
        self.weight_rows = weight_rows
        self.dsp_columns = dsp_columns
        self.sum_bits = 16 + (rows - 1).bit_length()
        self.latency = rows + 1
        buses = data.ArrayLayout(signed(8), columns)
        super().__init__(
            {
                "switch": In(1),
                "activations": In(data.ArrayLayout(signed(8), rows)),
                "weights": In(data.ArrayLayout(buses, weight_rows)),
                "load": In(rows),
                "sums": Out(data.ArrayLayout(signed(self.sum_bits), columns)),
            }
        )

    @staticmethod
    def _delay(m: Module, value: Value, cycles: int, name: str) -> Value:
        for cycle in range(cycles):
            delayed = Signal(value.shape(), name=f"{name}_{cycle + 1}", reset_less=True)
            m.d.sync += delayed.eq(value)
            value = delayed
        return value

    def elaborate(self, platform: object) -> Module:
        m = Module()
        switch: Value = self.switch
        sums: data.View | None = None
        for i in range(self.rows):
            row = Row(columns=self.columns, sum_bits=self.sum_bits, dsp_columns=self.dsp_columns)
            m.submodules[f"row_{i}"] = row
            if i:
                switch = self._delay(m, switch, 1, f"switch_{i}")
            m.d.comb += [
                row.act.eq(self._delay(m, self.activations[i], i, f"act_{i}")),
                row.switch.eq(switch),
                row.load.eq(self.load[i]),
                row.weights.eq(self.weights[i * self.weight_rows // self.rows]),
            ]
            if sums is not None:
                m.d.comb += row.sums_in.eq(sums)
            sums = row.sums_out
        assert sums is not None
        m.d.comb += self.sums.eq(sums)
        return m
