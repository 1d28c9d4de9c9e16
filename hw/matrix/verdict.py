"""Words of wrong parity that a request of the matrix unit used."""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.memory.weight_buffer import WeightBuffer


class TileVerdict(Component):
    """Reports tiles with weights of wrong parity.

    Parameters
    ----------
    rows, columns, weight_rows : int
        Sizes of the weight buffer.

    Members
    -------
    start, ready, banks : In(1), In(1), In(ArrayLayout(columns, weight_rows))
        ``start``, ``ready`` and ``wrong`` of ``WeightBuffer``.
    wrong : Out(1)
        A weight of the tile that started ``latency`` cycles before was wrong.

    Timing
    ------
    ``latency`` = rows + columns + ``WeightBuffer.LATENCY`` - 1.
    """

    def __init__(self, *, rows: int, columns: int, weight_rows: int) -> None:
        self.weight_rows = weight_rows
        self.segment_rows = rows // weight_rows
        self.latency = rows + columns + WeightBuffer.LATENCY - 1
        self.start = In(1)
        self.ready = In(1)
        self.banks = In(data.ArrayLayout(columns, weight_rows))
        self.wrong = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A row moves from bank to bank, one position a cycle, and its errors with it. Its first
        # weight is checked ``LATENCY`` cycles after the buffer begins to read the row.
        weights: dict[int, list[Value]] = {}
        for segment in range(self.weight_rows):
            for column, bank in enumerate(Value.cast(self.banks[segment])):
                weights.setdefault(segment * self.segment_rows + column, []).append(bank)
        reads = self.start | ~self.ready
        reading = delayed(m, reads, max(weights) + WeightBuffer.LATENCY, name="reads")
        row: Value = Const(0, 1)
        for position in range(max(weights) + 1):
            later = Signal(name=f"row_wrong_{position}")
            banks_wrong = Cat(row, *weights.get(position, ())).any()
            m.d.sync += later.eq(reading[position + WeightBuffer.LATENCY] & banks_wrong)
            row = later
        ends = delayed(m, self.start & self.ready, self.latency, name="tile")[-1]
        earlier = Signal()
        m.d.sync += earlier.eq(~ends & (earlier | row))
        m.d.comb += self.wrong.eq(ends & (earlier | row))
        return m


class Verdict(Component):
    """Reports requests that used wrong bytes of the unified buffer, or wrong weights.

    Parameters
    ----------
    read_latency, results_latency : int
        Cycles from a request to its response, and until its sums can be read.
    verdict_latency : int
        Cycles from the start of a tile to ``TileVerdict.wrong``.

    Members
    -------
    begins : In(1)
        The first request of a pass is taken. That is at least one cycle after its tile started, and
        the next tile starts in that cycle at the earliest.
    tile_wrong : In(1)
        As in ``TileVerdict.wrong``.
    read_wrong : In(1)
        One cycle after a response: a lane had wrong parity.
    wrong : Out(1)
        The request ``results_latency`` cycles before used wrong bytes or weights.

    Timing
    ------
    ``verdict_latency`` - 1 cycles after the first request of a pass, the parity of its tile has
    been checked, and that of no later tile.
    """

    def __init__(self, *, read_latency: int, verdict_latency: int, results_latency: int) -> None:
        self.read_latency = read_latency
        self.verdict_latency = verdict_latency
        self.results_latency = results_latency
        self.begins = In(1)
        self.tile_wrong = In(1)
        self.read_wrong = In(1)
        self.wrong = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        meets = self.verdict_latency - 1
        firsts = Signal(meets)
        m.d.sync += firsts.eq(Cat(self.begins, firsts))
        remembered = Signal()
        m.d.sync += remembered.eq(~firsts[-1] & (remembered | self.tile_wrong))
        joins = (
            (self.read_latency + 1, self.read_wrong),
            (meets, firsts[-1] & (remembered | self.tile_wrong)),
        )
        wrong: Value = Const(0, 1)
        for age in range(min(age for age, _ in joins), self.results_latency):
            wrong = Cat(wrong, *(joining for at, joining in joins if at == age)).any()
            later = Signal(name=f"wrong_{age + 1}")
            m.d.sync += later.eq(wrong)
            wrong = later
        m.d.comb += self.wrong.eq(wrong)
        return m
