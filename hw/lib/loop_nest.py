"""Loop nest: addresses of nested loops."""

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers


class LoopNest(Component):
    """Loop nest: address of the current round of nested loops.

    Each level holds the address at which its current round began. A step adds the stride of the
    innermost level that is not in its last round to the address of that level. That level and all
    levels inside it continue from the sum.

    Parameters
    ----------
    bits : int
        Width of an address. Addresses wrap.
    count_bits : tuple of int
        Width of the number of each level's last round, innermost level first.
    firsts : tuple of int, optional
        Number of each level's first round, 0 or 1; 0 if left out.

    Members
    -------
    start : In(1)
        Goes to the first round of all levels, at ``base``.
    base : In(unsigned(bits))
        First address.
    strides : In(ArrayLayout(unsigned(bits), levels))
        Distance of addresses from round to round, for each level. Constant while the loops run.
    counts : In(StructLayout of "0", "1", …)
        Number of the last round of each level, the innermost first: rounds less one where the first
        round has number 0, else rounds. Constant while the loops run.
    step : In(1)
        Goes to the next round; ignored together with ``start``.
    address : Out(unsigned(bits))
        Address of the current round.
    last : Out(levels)
        Levels that are in their last round.
    ends : Out(levels)
        Bit n: the levels from the innermost to n are in their last round.

    Timing
    ------
    ``address``, ``last`` and ``ends``, all registers, change in the cycle after ``start`` or
    ``step``, which may come every cycle.
    """

    def __init__(
        self, *, bits: int, count_bits: tuple[int, ...], firsts: tuple[int, ...] | None = None
    ) -> None:
        self.bits = bits
        self.firsts = firsts or (0,) * len(count_bits)
        self.count_bits = count_bits
        self.levels = len(count_bits)
        counts = {str(level): unsigned(width) for level, width in enumerate(count_bits)}
        self.start = In(1)
        self.base = In(bits)
        self.strides = In(data.ArrayLayout(unsigned(bits), self.levels))
        self.counts = In(data.StructLayout(counts))
        self.step = In(1)
        self.address = Out(bits)
        self.last = Out(self.levels)
        self.ends = Out(self.levels)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        last, ends = data_registers(m, self.last, self.ends)
        began = [
            Signal(self.bits, name=f"began_{level}", reset_less=True)
            for level in range(self.levels)
        ]
        rounds = [
            Signal(width, name=f"round_{n}", reset_less=True)
            for n, width in enumerate(self.count_bits)
        ]
        origin: Value = began[-1]
        stride: Value = self.strides[self.levels - 1]
        for level in reversed(range(self.levels - 1)):
            origin = Mux(last[level], origin, began[level])
            stride = Mux(last[level], stride, self.strides[level])
        address = Signal(self.bits)
        m.d.comb += [
            address.eq(Mux(self.start, self.base, origin + stride)),
            self.address.eq(began[0]),
        ]
        for level, begins in enumerate(self._count(m, rounds, last, ends)):
            with m.If(begins):
                m.d.sync += began[level].eq(address)
        return m

    def _count(self, m: Module, rounds: list[Signal], last: Signal, ends: Signal) -> list[Value]:
        """Count the rounds of each level; return for each level that it begins a round.

        ``step`` comes late and reaches enables only. So ``ends`` is found from the next ``last``.
        """
        begins: list[Value] = []
        single, following_last = (Signal(self.levels, name=n) for n in ("single", "following_last"))
        for level, number in enumerate(rounds):
            count, first = self.counts[str(level)], self.firsts[level]
            following = Signal(len(number), name=f"following_{level}")
            # The next round is the last one, compared a round earlier.
            nears = Signal(name=f"nears_{level}", reset_less=True)
            inner = ends[level - 1] if level else Const(1)
            again = Mux(last[level], single[level], nears)
            m.d.comb += [
                following.eq(number + 1),
                single[level].eq(count == first),
                following_last[level].eq(Mux(inner, again, last[level])),
            ]
            begins.append(self.start | (self.step & inner))
            with m.If(begins[level]):
                with m.If(self.start | last[level]):
                    m.d.sync += [number.eq(first), nears.eq(count == first + 1)]
                with m.Else():
                    m.d.sync += [number.eq(following), nears.eq(count == number + 2)]
        with m.If(self.start | self.step):
            m.d.sync += last.eq(Mux(self.start, single, following_last))
            for level in range(self.levels):
                inward = slice(level + 1)
                at_start, at_step = single[inward].all(), following_last[inward].all()
                m.d.sync += ends[level].eq(Mux(self.start, at_start, at_step))
        return begins
