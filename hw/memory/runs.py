"""Skips between runs of taps.

A *run* is a number of taps whose bytes are neighbours; after it, ``skip`` rows of the unified
buffer are left out. A vector of ``lanes`` taps needs the skipped rows before each of its lanes,
and the next vector likewise, one vector a cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from celosia.hw.lib.comparison import above, below
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.memory.run_start import RunStart, add_rows


class LongRuns(Component):
    """Lanes that enter a new run at the next step, for runs longer than ``lanes``.

    ``ahead`` is the distance from the first lane of a step to the end of its run. With d for this
    step and e for the next one, lane i enters a new run if ``i >= e``, or if ``d <= lanes`` and
    ``i < d``.

    Parameters
    ----------
    lanes, count_bits : int
        As for :class:`Runs`.

    Members
    -------
    start : In(1)
        Takes ``run``, which must be above ``lanes``.
    run : In(count_bits)
        Taps of a run.
    restart, advance : In(1)
        Go to step 0 of the run started last; go to the next step. ``restart`` is legal from two
        cycles after ``start`` on.
    enters_first, enters_next : Out(lanes)
        Lanes that enter a new run between step 0 and step 1, and between the next step and the one
        after it. ``Runs`` registers the first with ``restart``, the second with ``advance``.

    Timing
    ------
    ``enters_first`` and ``enters_next`` do not depend on ``restart`` and ``advance`` of their
    cycle, which come late.
    """

    def __init__(self, *, lanes: int, count_bits: int) -> None:
        self.lanes = lanes
        self.count_bits = count_bits
        self.start = In(1)
        self.run = In(count_bits)
        self.restart = In(1)
        self.advance = In(1)
        self.enters_first = Out(lanes)
        self.enters_next = Out(lanes)
        super().__init__()

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.lanes
        # Length of a run less ``lanes``.
        shorter = Signal(self.count_bits, reset_less=True)
        first_shorter = Signal(self.count_bits, reset_less=True)
        second = Signal(self.count_bits, reset_less=True)

        bits = lanes.bit_length() - 1

        def less(ahead: Value) -> Value:
            # After a step that ends no run; `ahead` is above `lanes`.
            return Cat(ahead[:bits], (ahead[bits:] - 1)[: self.count_bits - bits])

        # Comparisons for a restart are registered before it. So are those of `ahead`: `near` and
        # `inside` follow it in the cycle in which it changes.
        first_ends = Signal(reset_less=True)
        first_within = Signal(lanes, reset_less=True)
        new = Signal()
        m.d.sync += new.eq(self.start)
        with m.If(self.start):
            m.d.sync += first_shorter.eq(self.run - lanes)
        first_below = ~above(first_shorter, lanes)
        with m.If(new):
            m.d.sync += [
                second.eq(Mux(first_below, first_shorter << 1, less(first_shorter))),
                first_ends.eq(first_below),
                first_within.eq(below(first_shorter, lanes)),
            ]

        ahead = Signal(self.count_bits, reset_less=True)
        # Two equal registers: `close` is for the lanes.
        near, close = (Signal(name=n, reset_less=True, attrs=COPY) for n in ("near", "close"))
        inside = Signal(lanes, reset_less=True)
        ends = Signal(reset_less=True)
        within = Signal(lanes, reset_less=True)
        # `ahead` after a step that ends its run. `low`: the next `ahead` as far as lanes compare
        # with it, without waiting for `less`.
        onward = Signal(self.count_bits)
        low = Mux(
            close,
            Cat(onward[:bits], onward[bits:].any()),
            Cat(ahead[:bits], ahead[bits + 1 :].any()),
        )
        m.d.comb += [
            self.enters_first.eq(~first_within),
            self.enters_next.eq(~inside | Mux(ends, within, 0)),
            onward.eq(ahead + shorter),
        ]
        with m.If(self.restart):
            m.d.sync += [
                shorter.eq(first_shorter),
                ahead.eq(second),
                *(flag.eq(~above(second, lanes)) for flag in (near, close)),
                inside.eq(below(second, lanes)),
                ends.eq(first_ends),
                within.eq(first_within),
            ]
        with m.Elif(self.advance):
            m.d.sync += [
                ahead.eq(Mux(near, onward, less(ahead))),
                *(
                    flag.eq(~Mux(near, above(onward, lanes), above(ahead, 2 * lanes)))
                    for flag in (near, close)
                ),
                inside.eq(below(low, lanes)),
                ends.eq(close),
                within.eq(inside),
            ]
        return m


class _Runs(Component):
    """Ports that ``Runs`` has for any number of lanes."""

    def __init__(self, *, row_bits: int, count_bits: int) -> None:
        self.row_bits = row_bits
        self.count_bits = count_bits
        self.start = In(1)
        self.run = In(count_bits)
        self.skip_rows = In(row_bits)
        self.ready = Out(1)
        self.restart = In(1)
        self.advance = In(1)
        super().__init__()


class SingleRuns(_Runs):
    """Skips of one lane: counts the taps of a run.

    Parameters
    ----------
    row_bits, count_bits : int
        As for :class:`Runs`.

    Members
    -------
    start, run, skip_rows, ready, restart, advance
        As in :class:`Runs`.
    skip : Out(row_bits)
        Rows left out before the current tap.

    Timing
    ------
    As in :class:`Runs`.
    """

    def __init__(self, *, row_bits: int, count_bits: int) -> None:
        self.skip = Out(row_bits)
        super().__init__(row_bits=row_bits, count_bits=count_bits)

    def elaborate(self, platform) -> Module:
        m = Module()
        [skip] = data_registers(m, self.skip)
        run, given_run = (
            Signal(self.count_bits, name=n, reset_less=True) for n in ("run", "given_run")
        )
        rows, given_rows = (
            Signal(self.row_bits, name=n, reset_less=True) for n in ("rows", "given_rows")
        )
        single, given_single = (Signal(name=n, reset_less=True) for n in ("single", "given_single"))
        started = Signal()
        m.d.sync += self.ready.eq(started & ~self.start)
        with m.If(self.start):
            m.d.sync += [
                started.eq(1),
                given_run.eq(self.run),
                given_rows.eq(self.skip_rows),
                given_single.eq(self.run == 1),
            ]
        # Number of the tap in its run, from 1 on; the last one of it.
        tap = Signal(self.count_bits, reset_less=True)
        ends = Signal(reset_less=True)
        following = Signal(self.count_bits)
        m.d.comb += following.eq(tap + 1)
        with m.If(self.restart):
            m.d.sync += [
                run.eq(given_run),
                rows.eq(given_rows),
                single.eq(given_single),
                tap.eq(1),
                ends.eq(given_single),
                skip.eq(0),
            ]
        with m.Elif(self.advance):
            m.d.sync += [
                tap.eq(Mux(ends, 1, following)),
                ends.eq(Mux(ends, single, following == run)),
            ]
            with m.If(ends):
                m.d.sync += skip.eq(add_rows(skip, rows))
        return m


def prepare_cycles(lanes: int) -> int:
    """Return the cycles from ``start`` of ``Runs`` to ``ready``."""
    return (lanes - 1).bit_length() + 2


class Runs(_Runs):
    """Rows left out before each lane: (k div run) · skip, with tap k = s · lanes + i.

    ``s`` is the step, ``i`` the lane.

    Parameters
    ----------
    lanes : int
        Taps of one step, a power of two.
    row_bits : int
        Width of a number of rows. The top bit means 'outside any memory' and stays set.
    count_bits : int
        Width of ``run``.

    Members
    -------
    start : In(1)
        Prepares ``run`` and ``skip_rows``. ``skip`` still follows the values started before.
    run : In(unsigned(count_bits))
        Taps of a run, at least 1.
    skip_rows : In(unsigned(row_bits))
        Rows left out after each run, top bit clear.
    ready : Out(1)
        The values of the last ``start`` are prepared.
    restart : In(1)
        Goes to step 0 with the values of the last ``start``; only while ``ready``.
    advance : In(1)
        Goes to the next step; ignored together with ``restart``.
    skip : Out(ArrayLayout(unsigned(row_bits), lanes))
        Rows left out before each lane of the current step.

    Timing
    ------
    ``ready`` falls in the cycle after ``start`` and rises ``PREPARE`` = log2(lanes) + 2 cycles
    after ``start``. ``skip`` changes in the cycle after ``restart`` or ``advance``, each of which
    may come in every cycle. If ``restart`` and ``start`` come together, ``restart`` takes the
    values before.

    Raises
    ------
    ValueError
        If ``lanes`` is no power of two, or a width is below 2.
    """

    def __init__(self, *, lanes: int, row_bits: int, count_bits: int) -> None:
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"lanes: wanted a power of two, got {lanes}")
        if row_bits < 2:
            raise ValueError(f"row_bits: wanted at least 2, got {row_bits}")
        if count_bits < lanes.bit_length() + 1:
            raise ValueError(
                f"count_bits: wanted at least {lanes.bit_length() + 1}, got {count_bits}"
            )
        self.lanes = lanes
        self.PREPARE = prepare_cycles(lanes)
        self.skip = Out(data.ArrayLayout(unsigned(row_bits), lanes))
        super().__init__(row_bits=row_bits, count_bits=count_bits)

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.lanes
        if lanes == 1:
            m.submodules.single_runs = single = SingleRuns(
                row_bits=self.row_bits, count_bits=self.count_bits
            )
            m.d.comb += [
                single.start.eq(self.start),
                single.run.eq(self.run),
                single.skip_rows.eq(self.skip_rows),
                single.restart.eq(self.restart),
                single.advance.eq(self.advance),
                self.ready.eq(single.ready),
                self.skip[0].eq(single.skip),
            ]
            return m
        [skip] = data_registers(m, self.skip)
        m.submodules.first = first = RunStart(lanes=lanes, row_bits=self.row_bits)
        m.submodules.long = long = LongRuns(lanes=lanes, count_bits=self.count_bits)
        bits = first.remainder_bits
        is_long = above(self.run, lanes)
        prepared_long = Signal(reset_less=True)
        prepared_enters = Signal(lanes, reset_less=True)
        # Of a long run a step enters one at most, as of a run of 2 · lanes; `long` finds the lanes.
        m.d.comb += [
            first.start.eq(self.start),
            first.run.eq(Mux(is_long, 2 * lanes, self.run)),
            first.skip_rows.eq(self.skip_rows),
            long.start.eq(self.start),
            long.run.eq(self.run),
            long.restart.eq(self.restart),
            long.advance.eq(self.advance),
        ]
        # One cycle later than `first.ready`: rows come later than taps.
        m.d.sync += self.ready.eq(first.ready & ~self.start)
        with m.If(self.start):
            m.d.sync += prepared_long.eq(is_long)
        for i in range(lanes):
            m.d.sync += prepared_enters[i].eq(first.remainder[i] >= first.step_left)

        # With a step each lane adds `onward`, lanes modulo run, to the taps since its run began; or
        # `back`, which is less by a run, if it `enters` one run more than the others.
        held_long = Signal(reset_less=True)
        back, onward, limit = (
            Signal(bits, name=n, reset_less=True) for n in ("back", "onward", "limit")
        )
        rows, rows_more = (
            Signal(self.row_bits, name=n, reset_less=True) for n in ("rows", "rows_more")
        )
        # Two equal registers: `more` selects what each lane adds to its rows.
        enters, more = (
            Signal(lanes, name=n, reset_less=True, attrs=COPY) for n in ("enters", "more")
        )
        with m.If(self.restart):
            m.d.sync += [
                held_long.eq(prepared_long),
                onward.eq(first.step_remainder),
                back.eq(-first.step_left),
                limit.eq(first.step_left),
                rows.eq(first.step_skip),
                rows_more.eq(first.step_skip_more),
                skip.eq(first.skip),
                *(
                    flags.eq(Mux(prepared_long, long.enters_first, prepared_enters))
                    for flags in (enters, more)
                ),
            ]
        for i in range(lanes):
            remainder = Signal(bits, name=f"remainder_{i}", reset_less=True)
            after = (remainder + Mux(enters[i], back, onward))[:bits]
            with m.If(self.restart):
                m.d.sync += remainder.eq(first.remainder[i])
            with m.Elif(self.advance):
                m.d.sync += [
                    remainder.eq(after),
                    *(
                        flags[i].eq(Mux(held_long, long.enters_next[i], after >= limit))
                        for flags in (enters, more)
                    ),
                    skip[i].eq(add_rows(skip[i], Mux(more[i], rows_more, rows))),
                ]
        return m
