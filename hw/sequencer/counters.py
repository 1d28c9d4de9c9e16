"""Activity counters: in each cycle and for each unit, one of them counts."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.counter import HalvedCounter
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY
from celosia.hw.targets.product import NextCount


class UnitCounters(Component):
    """Counters of one unit, in a memory: each cycle adds one to the counter of its activity.

    Parameters
    ----------
    in_luts : bool
        The memory is made of LUTs, about 100 of them on an ECP5, instead of a block memory.
    primitive : str
        See ``NextCount``.

    Members
    -------
    enable : In(1)
        Counts in this cycle.
    activity : In(Activity)
        Number of the counter that counts.
    clear : In(1)
        Sets counter ``address`` to zero.
    address, value : In(range(COUNTERS_PER_UNIT)), Out(32)
        Number of a counter, and its value two cycles later. Valid only when ``enable`` has been low
        for three cycles.

    Timing
    ------
    A cycle's count is in the memory three cycles later.
    """

    def __init__(self, *, in_luts: bool = False, primitive: str = "portable") -> None:
        self.in_luts = in_luts
        self.primitive = primitive
        self.enable = In(1)
        self.activity = In(Activity)
        self.clear = In(1)
        self.address = In(range(COUNTERS_PER_UNIT))
        self.value = Out(32)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        attrs: Any = race.UNDEFINED | {"ram_style": "distributed" if self.in_luts else "block"}
        # Inputs in registers, copies of those of other units; a memory of LUTs has many address
        # inputs, so each half of its bits has a copy. A reset that comes right after `enable` loses
        # no cycle: those on their way to the memory get there.
        enabled, clears, counts = (
            Signal(name=name, reset_less=True, attrs=COPY)
            for name in ("enabled", "clears", "counts")
        )
        index = Signal(range(COUNTERS_PER_UNIT), reset_less=True)
        halves = 2 if self.in_luts else 1
        places = [
            Signal(range(COUNTERS_PER_UNIT), name=f"place_{n}", reset_less=True, attrs=COPY)
            for n in range(halves)
        ]
        place = places[0]
        # Cycles of an activity before this one that are not in the memory yet. While it repeats,
        # they are written every third cycle: `rewrites`. No read may meet a write, so the count
        # that is read stays for a cycle, with 3 `unwritten`.
        unwritten = Signal(2, reset_less=True)
        again = Signal()
        rewrites = Signal()
        m.submodules.following = following = NextCount(width=32, primitive=self.primitive)
        m.d.comb += [
            again.eq(counts & enabled & (place == index)),
            rewrites.eq(again & (unwritten == 2)),
            following.count.eq(self.value),
            following.more.eq(unwritten),
            following.clear.eq(clears),
        ]
        for n, own in enumerate(places):
            memory = Memory(
                shape=unsigned(32 // halves), depth=COUNTERS_PER_UNIT, init=[], attrs=attrs
            )
            m.submodules[f"memory_{n}"] = memory
            read = memory.read_port()
            write = memory.write_port()
            m.d.comb += [
                read.addr.eq(own),
                read.en.eq(~rewrites),
                write.en.eq((counts & ~again) | rewrites | clears),
                write.addr.eq(Mux(clears, own, index)),
                write.data.eq(following.next.word_select(n, 32 // halves)),
                self.value.word_select(n, 32 // halves).eq(read.data),
            ]
        m.d.sync += [
            enabled.eq(self.enable),
            clears.eq(self.clear),
            *(own.eq(Mux(self.enable, Value.cast(self.activity), self.address)) for own in places),
            counts.eq(enabled),
            index.eq(place),
            unwritten.eq(Mux(again, Mux(unwritten == 3, 1, unwritten + 1), 0)),
        ]
        return m


class Counters(Component):
    """Counters of every unit, and the cycles that they add up to.

    Parameters
    ----------
    units : int
        Units.
    counts : bool
        Without it there are no counters besides ``cycles``: ``value`` and ``clearing`` are 0.
    in_luts, primitive : bool, str
        As in ``UnitCounters``.

    Members
    -------
    enable : In(1)
        A program is running.
    activities : In(ArrayLayout(Activity, units))
        Class of this cycle, for each unit.
    clear : In(1)
        Clears all counters and ``cycles``.
    clearing : Out(1)
        Counters are being cleared.
    address, value : In, Out(32)
        Counter ``address % COUNTERS_PER_UNIT`` of unit ``address // COUNTERS_PER_UNIT``,
        ``VALUE_LATENCY`` cycles later.
    cycles : Out(32)
        Cycles with ``enable``. A reset changes neither them nor the counters.

    Timing
    ------
    ``value`` follows ``address`` by ``VALUE_LATENCY`` cycles; clearing takes COUNTERS_PER_UNIT
    cycles. A cycle's count is in the memories three cycles later; ``value`` is valid only when
    ``enable`` has been low for so long.
    """

    VALUE_LATENCY = 2

    def __init__(
        self,
        *,
        units: int,
        counts: bool = True,
        in_luts: bool = False,
        primitive: str = "portable",
    ) -> None:
        self.units = units
        self.counts = counts
        self.in_luts = in_luts
        self.primitive = primitive
        self.enable = In(1)
        self.activities = In(data.ArrayLayout(Activity, units))
        self.clear = In(1)
        self.clearing = Out(1)
        self.address = In(range(units * COUNTERS_PER_UNIT))
        self.value = Out(32)
        self.cycles = Out(32)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = (COUNTERS_PER_UNIT - 1).bit_length()
        # The counts in the memories survive a reset, so these registers must survive it too.
        sweep = Signal(bits, reset_less=True)
        clearing = Signal(reset_less=True)
        m.submodules.total = total = HalvedCounter(32)
        m.d.comb += [
            self.clearing.eq(clearing),
            total.clear.eq(self.clear),
            total.enable.eq(self.enable & ~clearing),
            self.cycles.eq(total.count),
        ]
        chosen = delayed(
            m, self.address[bits:], self.VALUE_LATENCY, name="chosen", reset_less=True
        )[-1]
        with m.If(self.clear):
            m.d.sync += [clearing.eq(self.counts), sweep.eq(0)]
        with m.Elif(clearing):
            m.d.sync += [sweep.eq(sweep + 1), clearing.eq(sweep != COUNTERS_PER_UNIT - 1)]
        for u in range(self.units if self.counts else 0):
            unit = UnitCounters(in_luts=self.in_luts, primitive=self.primitive)
            m.submodules[f"unit_{u}"] = unit
            m.d.comb += [
                unit.enable.eq(self.enable & ~self.clearing),
                unit.activity.eq(self.activities[u]),
                unit.clear.eq(self.clearing),
                unit.address.eq(Mux(self.clearing, sweep, self.address[:bits])),
            ]
            with m.If(chosen == u):
                m.d.comb += self.value.eq(unit.value)
        return m
