"""Rows left out between runs, for a vector of neighbouring taps that moves on."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less


def add_rows(a: Value, b: Value) -> Value:
    """Return the sum of two row counts of the same width, whose top bit stays set once it is set."""
    bits = len(a)
    return Cat((a + b)[: bits - 1], (a + b)[bits - 1] | a[-1] | b[-1])


class RunStart(wiring.Component):
    """State of every lane at step 0, by doubling.

    Lanes 2^j to 2^(j+1) − 1 are lanes 0 to 2^j − 1 moved on by 2^j taps; the move itself doubles from
    stage to stage and ends as the step of ``lanes`` taps.

    Parameters
    ----------
    lanes, row_bits : int
        As for :class:`Runs`.

    Members
    -------
    start : In(1)
        Begins with ``run`` and ``skip_rows``.
    run : In(unsigned(b + 2)), b = log2(lanes)
        Length of a run; anything above ``lanes`` says that no lane leaves the first run.
    skip_rows : In(unsigned(row_bits))
        Rows left out after a run.
    ready : Out(1)
        Taps stand, until the next ``start``; rows do from the next cycle on.
    rest, skip : Out(ArrayLayout(lanes))
        Taps since the run of the lane began; rows left out so far.
    step_rest, step_left : Out
        Taps of one step modulo ``run``; what they lack to ``run``.
    step_skip, step_skip_more : Out
        Rows of a step that enters ⌊lanes / run⌋ runs, and one more.

    Timing
    ------
    ``ready`` is high log2(lanes) + 1 cycles after ``start``. Rows follow one cycle behind the taps that
    say how many they are.
    """

    start: Signal
    run: Signal
    skip_rows: Signal
    ready: Signal
    rest: Signal
    skip: Signal
    step_rest: Signal
    step_left: Signal
    step_skip: Signal
    step_skip_more: Signal

    def __init__(self, *, lanes: int, row_bits: int) -> None:
        self.lanes = lanes
        self.row_bits = row_bits
        self.stages = (lanes - 1).bit_length()
        self.rest_bits = self.stages + 2
        super().__init__(
            {
                "start": In(1),
                "run": In(self.rest_bits),
                "skip_rows": In(row_bits),
                "ready": Out(1),
                "rest": Out(data.ArrayLayout(unsigned(self.rest_bits), lanes)),
                "skip": Out(data.ArrayLayout(unsigned(row_bits), lanes)),
                "step_rest": Out(self.rest_bits),
                "step_left": Out(self.rest_bits - 1),
                "step_skip": Out(row_bits),
                "step_skip_more": Out(row_bits),
            }
        )
        reset_less(self, "rest", "skip", "step_rest", "step_left", "step_skip", "step_skip_more")

    def elaborate(self, platform) -> Module:
        m = Module()
        # Stage in progress, one-hot; the last bit says that all are done.
        stage = Signal(self.stages + 1)
        with m.If(self.start):
            m.d.sync += stage.eq(1)
        with m.Elif(~stage[-1]):
            m.d.sync += stage.eq(stage << 1)
        m.d.comb += self.ready.eq(stage[-1])

        bits = self.rest_bits
        # Stage of the rows, and which of its lanes, and whether its step, enter one run more.
        late = Signal(self.stages)
        m.d.sync += late.eq(Mux(self.start, 0, stage[:-1]))
        entering = Signal(max(self.lanes // 2, 1), reset_less=True)
        step_enters = Signal(reset_less=True)

        def moved(rest: Value) -> tuple[Value, Value]:
            # Both outcomes are computed while it is decided which it is.
            more = rest >= self.step_left
            inside, beyond = (rest + self.step_rest)[:bits], (rest - self.step_left)[:bits]
            return Mux(more, beyond, inside), more

        for j in range(self.stages):
            with m.If(stage[j]):
                for i in range(1 << j):
                    rest, more = moved(self.rest[i])
                    m.d.sync += [self.rest[i + (1 << j)].eq(rest), entering[i].eq(more)]
                rest, more = moved(self.step_rest)
                left = Mux(more, self.step_left << 1, self.step_left - self.step_rest)
                m.d.sync += [
                    self.step_rest.eq(rest),
                    self.step_left.eq(left),
                    step_enters.eq(more),
                ]
            with m.If(late[j]):
                for i in range(1 << j):
                    rows = Mux(entering[i], self.step_skip_more, self.step_skip)
                    m.d.sync += self.skip[i + (1 << j)].eq(add_rows(self.skip[i], rows))
                rows = Mux(step_enters, self.step_skip_more, self.step_skip)
                m.d.sync += self.step_skip.eq(add_rows(self.step_skip, rows))
                m.d.sync += self.step_skip_more.eq(add_rows(self.step_skip_more, rows))
        with m.If(self.start):
            single = self.run == 1
            m.d.sync += [
                self.step_rest.eq(~single),
                self.step_left.eq(self.run - ~single),
                self.step_skip.eq(Mux(single, self.skip_rows, 0)),
                self.step_skip_more.eq(
                    Mux(single, add_rows(self.skip_rows, self.skip_rows), self.skip_rows)
                ),
                self.rest[0].eq(0),
                self.skip[0].eq(0),
            ]
        return m


class LongRuns(wiring.Component):
    """Which lanes enter a new run at the next step, where runs are longer than ``lanes``.

    ``ahead`` is the distance from the first lane of a step to the end of its run. With d of this
    step and e of the next one, lane i enters a new run if ``i >= e``, or if ``d <= lanes`` and
    ``i < d``.

    Parameters
    ----------
    lanes, count_bits : int
        As for :class:`Runs`.

    Members
    -------
    start : In(1)
        Takes ``run``, above ``lanes``.
    restart, advance : In(1)
        Go to step 0 of the run started last; go to the next step. ``restart`` is legal two cycles
        after ``start``.
    enters_first, enters_next : Out(lanes)
        Lanes that enter a new run behind the step that ``restart`` begins, and behind the one that
        ``advance`` begins: to be registered by who asserts them.

    Timing
    ------
    ``enters_first`` and ``enters_next`` stand before ``restart`` and ``advance``, which are known late
    in a cycle.
    """

    start: Signal
    run: Signal
    restart: Signal
    advance: Signal
    enters_first: Signal
    enters_next: Signal

    def __init__(self, *, lanes: int, count_bits: int) -> None:
        self.lanes = lanes
        self.count_bits = count_bits
        super().__init__(
            {
                "start": In(1),
                "run": In(count_bits),
                "restart": In(1),
                "advance": In(1),
                "enters_first": Out(lanes),
                "enters_next": Out(lanes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.lanes
        # Lengths as 'minus lanes': what is left of a run once a step has been taken from it.
        shorter = Signal(self.count_bits, reset_less=True)
        first_shorter = Signal(self.count_bits, reset_less=True)
        second = Signal(self.count_bits, reset_less=True)

        def next_ahead(ahead: Value, run_shorter: Value) -> Value:
            return (ahead + Mux(ahead <= lanes, run_shorter, -lanes))[: self.count_bits]

        def below(ahead: Value) -> Value:
            return Cat(i < ahead for i in range(lanes))

        # What a restart takes is compared before it comes.
        first_ends = Signal(reset_less=True)
        first_within = Signal(lanes, reset_less=True)
        new = Signal()
        m.d.sync += new.eq(self.start)
        with m.If(self.start):
            m.d.sync += first_shorter.eq(self.run - lanes)
        with m.If(new):
            m.d.sync += [
                second.eq(next_ahead(first_shorter, first_shorter)),
                first_ends.eq(first_shorter <= lanes),
                first_within.eq(below(first_shorter)),
            ]

        ahead = Signal(self.count_bits, reset_less=True)
        ends = Signal(reset_less=True)
        within = Signal(lanes, reset_less=True)
        m.d.comb += [
            self.enters_first.eq(~first_within),
            self.enters_next.eq(~below(ahead) | Mux(ends, within, 0)),
        ]
        with m.If(self.restart):
            m.d.sync += [
                shorter.eq(first_shorter),
                ahead.eq(second),
                ends.eq(first_ends),
                within.eq(first_within),
            ]
        with m.Elif(self.advance):
            m.d.sync += [
                ahead.eq(next_ahead(ahead, shorter)),
                ends.eq(ahead <= lanes),
                within.eq(below(ahead)),
            ]
        return m


class Runs(wiring.Component):
    """Rows left out in front of each lane: (k div run) · skip rows, lane ``i`` of step ``s`` being
    tap k = s · lanes + i.

    Parameters
    ----------
    lanes : int
        Taps of one step, a power of two.
    row_bits : int
        Width of a number of rows. The top bit says 'outside any memory' and stays set.
    count_bits : int
        Width of the length of a run.

    Members
    -------
    start : In(1)
        Prepares ``run`` and ``skip_rows``; what goes on with the run before is not disturbed.
    run : In(unsigned(count_bits))
        Taps that lie side by side, at least 1.
    skip_rows : In(unsigned(row_bits))
        Rows left out after each run, top bit clear.
    ready : Out(1)
        What was started last is prepared.
    restart : In(1)
        Goes to step 0 of what was started last; only while ``ready``.
    advance : In(1)
        Goes to the next step; ignored together with ``restart``.
    skip : Out(ArrayLayout(unsigned(row_bits), lanes))
        Rows left out, for each lane of the current step.

    Timing
    ------
    ``ready`` falls in the cycle after ``start`` and rises ``PREPARE`` = log2(lanes) + 2 cycles after
    it. ``skip`` changes in the cycle after ``restart`` or ``advance``, each of which may come every
    cycle. ``restart`` and ``start`` may come together: the former then still takes what was prepared.

    Raises
    ------
    ValueError
        If ``lanes`` is no power of two, or a width is below 2.
    """

    start: Signal
    run: Signal
    skip_rows: Signal
    ready: Signal
    restart: Signal
    advance: Signal
    skip: Signal

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
        self.row_bits = row_bits
        self.count_bits = count_bits
        self.PREPARE = (lanes - 1).bit_length() + 2
        super().__init__(
            {
                "start": In(1),
                "run": In(count_bits),
                "skip_rows": In(row_bits),
                "ready": Out(1),
                "restart": In(1),
                "advance": In(1),
                "skip": Out(data.ArrayLayout(unsigned(row_bits), lanes)),
            }
        )
        reset_less(self, "skip")

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self.lanes
        m.submodules.first = first = RunStart(lanes=lanes, row_bits=self.row_bits)
        m.submodules.long = long = LongRuns(lanes=lanes, count_bits=self.count_bits)
        bits = first.rest_bits
        is_long = self.run > lanes
        prepared_long = Signal(reset_less=True)
        prepared_enters = Signal(lanes, reset_less=True)
        m.d.comb += [
            first.start.eq(self.start),
            first.run.eq(Mux(is_long, 2 * lanes, self.run)),
            first.skip_rows.eq(self.skip_rows),
            long.start.eq(self.start),
            long.run.eq(self.run),
            long.restart.eq(self.restart),
            long.advance.eq(self.advance),
        ]
        # The first step's carries need the taps of `first`, and rows are late: one cycle more.
        m.d.sync += self.ready.eq(first.ready & ~self.start)
        with m.If(self.start):
            m.d.sync += prepared_long.eq(is_long)
        for i in range(lanes):
            m.d.sync += prepared_enters[i].eq(first.rest[i] >= first.step_left)

        held_long = Signal(reset_less=True)
        back, onward, limit = (
            Signal(bits, name=n, reset_less=True) for n in ("back", "onward", "limit")
        )
        rows, rows_more = (
            Signal(self.row_bits, name=n, reset_less=True) for n in ("rows", "rows_more")
        )
        enters = Signal(lanes, reset_less=True)
        with m.If(self.restart):
            m.d.sync += [
                held_long.eq(prepared_long),
                onward.eq(first.step_rest),
                back.eq(-first.step_left),
                limit.eq(first.step_left),
                rows.eq(first.step_skip),
                rows_more.eq(first.step_skip_more),
                self.skip.eq(first.skip),
                enters.eq(Mux(prepared_long, long.enters_first, prepared_enters)),
            ]
        for i in range(lanes):
            rest = Signal(bits, name=f"rest_{i}", reset_less=True)
            after = (rest + Mux(enters[i], back, onward))[:bits]
            with m.If(self.restart):
                m.d.sync += rest.eq(first.rest[i])
            with m.Elif(self.advance):
                m.d.sync += [
                    rest.eq(after),
                    enters[i].eq(Mux(held_long, long.enters_next[i], after >= limit)),
                    self.skip[i].eq(add_rows(self.skip[i], Mux(enters[i], rows_more, rows))),
                ]
        return m
