"""Loop nest: addresses of nested loops."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers


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
        Distance of addresses from round to round, for each level. Constant from the cycle of
        ``start`` on, while the loops run.
    counts : In(StructLayout of "0", "1", …)
        Number of the last round of each level, the innermost first: rounds less one where the first
        round has number 0, else rounds. Constant from the cycle before ``start`` on.
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
        [last] = data_registers(m, self.last)
        [ends] = data_registers(m, self.ends, attrs=COPY)
        began = [
            Signal(self.bits, name=f"began_{level}", reset_less=True)
            for level in range(self.levels)
        ]
        # Rounds of each level after the current one.
        left = [
            Signal(width, name=f"left_{n}", reset_less=True)
            for n, width in enumerate(self.count_bits)
        ]
        # Bit n: the next step moves level n, the innermost that is not in its last round. The
        # stride of that level is chosen a step earlier.
        moves = Signal(self.levels, reset_less=True)
        following_moves = Signal(self.levels)
        stride = Signal(self.bits, reset_less=True)
        with m.If(self.start | self.step):
            m.d.sync += [
                moves.eq(following_moves),
                stride.eq(self._chosen(following_moves, self.strides)),
            ]
        origin = self._chosen(moves, began)
        address = Signal(self.bits)
        m.d.comb += [
            address.eq(Mux(self.start, self.base, origin + stride)),
            self.address.eq(began[0]),
        ]
        for level, begins in enumerate(self._count(m, left, last, ends, following_moves)):
            with m.If(begins):
                m.d.sync += began[level].eq(address)
        return m

    def _chosen(self, moves: Value, values: Any) -> Value:
        """Return the value of the level that moves."""
        chosen = (values[n] & moves[n].replicate(self.bits) for n in range(self.levels))
        return reduce(or_, chosen)

    def _count(
        self, m: Module, left: list[Signal], last: Signal, ends: Signal, following_moves: Signal
    ) -> list[Value]:
        """Count the rounds of each level down; return for each level that it begins a round.

        ``step`` comes late and reaches enables only. So ``ends`` and ``following_moves`` are found
        from the next ``last``.
        """
        # A copy of `ends` for the enables of all levels.
        inner_ends = Signal.like(ends, reset_less=True, attrs=COPY)
        begins: list[Value] = []
        # Levels of one round and of two, compared before the start.
        single, double = (
            Signal(self.levels, name=n, reset_less=True) for n in ("single", "double")
        )
        following_last = Signal(self.levels)
        for level, later in enumerate(left):
            count, first = self.counts[str(level)], self.firsts[level]
            # The next round is the last one, compared a round earlier.
            nears = Signal(name=f"nears_{level}", reset_less=True)
            inner = ends[level - 1] if level else Const(1)
            again = Mux(last[level], single[level], nears)
            m.d.sync += [single[level].eq(count == first), double[level].eq(count == first + 1)]
            m.d.comb += following_last[level].eq(Mux(inner, again, last[level]))
            begins.append(self.start | (self.step & (inner_ends[level - 1] if level else 1)))
            with m.If(begins[level]):
                with m.If(self.start | last[level]):
                    m.d.sync += [later.eq(count - first), nears.eq(double[level])]
                with m.Else():
                    m.d.sync += [later.eq(later - 1), nears.eq(later == 2)]
        with m.If(self.start | self.step):
            m.d.sync += last.eq(Mux(self.start, single, following_last))
            for level in range(self.levels):
                at_start, at_step = (v[: level + 1].all() for v in (single, following_last))
                m.d.sync += [
                    v[level].eq(Mux(self.start, at_start, at_step)) for v in (ends, inner_ends)
                ]
        for level in range(self.levels):
            # The outermost level moves after its last round, too.
            stays = level < self.levels - 1
            at_start, at_step = (
                v[:level].all() & ~(v[level] & stays) for v in (single, following_last)
            )
            m.d.comb += following_moves[level].eq(Mux(self.start, at_start, at_step))
        return begins
