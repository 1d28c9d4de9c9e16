"""Words of wrong parity that a request of the matrix unit used."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

from celosia.hw.lib.component import Component, In, Out


class Verdict(Component):
    """Reports requests that used wrong bytes of the unified buffer, or wrong weights.

    Parameters
    ----------
    read_latency, results_latency : int
        Cycles from a request to its response, and until its sums can be read.
    verdict_latency : int
        Cycles from the start of a tile to ``WeightBuffer.wrong``.

    Members
    -------
    begins : In(1)
        The first request of a pass is taken. That is at least one cycle after its tile started, and
        the next tile starts in that cycle at the earliest.
    tile_wrong : In(1)
        As of ``WeightBuffer.wrong``.
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
