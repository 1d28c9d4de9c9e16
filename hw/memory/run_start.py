"""Start of runs: skips of every lane at step 0, see ``runs``."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers


def add_rows(a: Value, b: Value) -> Value:
    """Return the sum of two row counts of equal width; a top bit that is set stays set."""
    bits = len(a)
    return Cat((a + b)[: bits - 1], (a + b)[bits - 1] | a[-1] | b[-1])


class RunStart(Component):
    """Skips of every lane at step 0, computed by doubling in log2(lanes) stages.

    Stage j makes lanes 2^j to 2^(j+1) − 1 from lanes 0 to 2^j − 1, which are 2^j taps before them.
    The distance doubles from stage to stage, up to a step of ``lanes`` taps.

    Parameters
    ----------
    lanes, row_bits : int
        As for ``Runs``.

    Members
    -------
    start : In(1)
        Starts with ``run`` and ``skip_rows``.
    run : In(unsigned(b + 2)), b = log2(lanes)
        Taps of a run; with any value above ``lanes``, all lanes are in the first run.
    skip_rows : In(unsigned(row_bits))
        Rows left out after a run.
    ready : Out(1)
        ``remainder``, ``step_remainder`` and ``step_left`` are valid, until the next ``start``; the
        others one cycle later.
    remainder, skip : Out(ArrayLayout(b + 2, lanes)), Out(ArrayLayout(row_bits, lanes))
        For each lane: taps since its run began; rows left out before it.
    step_remainder, step_left : Out(b + 2), Out(b + 1)
        ``lanes`` modulo ``run``, or 1 if ``run`` is 1; and ``run`` less that.
    step_skip, step_skip_more : Out(row_bits)
        Rows left out in a step that enters ⌊(lanes − step_remainder) / run⌋ runs, and in one that
        enters one more.

    Timing
    ------
    ``ready`` rises log2(lanes) + 1 cycles after ``start``.
    """

    def __init__(self, *, lanes: int, row_bits: int) -> None:
        self.lanes = lanes
        self.row_bits = row_bits
        self.stages = (lanes - 1).bit_length()
        self.remainder_bits = self.stages + 2
        self.start = In(1)
        self.run = In(self.remainder_bits)
        self.skip_rows = In(row_bits)
        self.ready = Out(1)
        self.remainder = Out(data.ArrayLayout(unsigned(self.remainder_bits), lanes))
        self.skip = Out(data.ArrayLayout(unsigned(row_bits), lanes))
        self.step_remainder = Out(self.remainder_bits)
        self.step_left = Out(self.remainder_bits - 1)
        self.step_skip = Out(row_bits)
        self.step_skip_more = Out(row_bits)
        super().__init__()

    def elaborate(self, platform) -> Module:
        m = Module()
        remainder_register, skip, step_remainder, step_left, step_skip, step_skip_more = (
            data_registers(
                m,
                self.remainder,
                self.skip,
                self.step_remainder,
                self.step_left,
                self.step_skip,
                self.step_skip_more,
            )
        )
        # Rest and skip of lane 0 are always 0: nothing drives them.
        # Stage in progress, one-hot; the last bit: all are done.
        stage = Signal(self.stages + 1)
        with m.If(self.start):
            m.d.sync += stage.eq(1)
        with m.Elif(~stage[-1]):
            m.d.sync += stage.eq(stage << 1)
        m.d.comb += self.ready.eq(stage[-1])

        bits = self.remainder_bits
        # Stage of the rows, one cycle later; lanes, and step, that enter one more run in it.
        late = Signal(self.stages)
        m.d.sync += late.eq(Mux(self.start, 0, stage[:-1]))
        entering = Signal(max(self.lanes // 2, 1), reset_less=True)
        step_enters = Signal(reset_less=True)

        def moved(remainder: Value) -> tuple[Value, Value]:
            # Both results are computed in parallel with the comparison.
            enters = remainder >= step_left
            inside, beyond = (remainder + step_remainder)[:bits], (remainder - step_left)[:bits]
            return Mux(enters, beyond, inside), enters

        for j in range(self.stages):
            with m.If(stage[j]):
                for i in range(1 << j):
                    remainder, enters = moved(remainder_register[i])
                    m.d.sync += [
                        remainder_register[i + (1 << j)].eq(remainder),
                        entering[i].eq(enters),
                    ]
                remainder, enters = moved(step_remainder)
                left = Mux(enters, step_left << 1, step_left - step_remainder)
                m.d.sync += [
                    step_remainder.eq(remainder),
                    step_left.eq(left),
                    step_enters.eq(enters),
                ]
            with m.If(late[j]):
                for i in range(1 << j):
                    rows = Mux(entering[i], step_skip_more, step_skip)
                    m.d.sync += skip[i + (1 << j)].eq(add_rows(skip[i], rows))
                rows = Mux(step_enters, step_skip_more, step_skip)
                m.d.sync += step_skip.eq(add_rows(step_skip, rows))
                m.d.sync += step_skip_more.eq(add_rows(step_skip_more, rows))
        with m.If(self.start):
            # Each step of a run of 1 enters one more than the `lanes` - 1 runs of `step_skip`.
            m.d.sync += [
                step_remainder.eq(1),
                step_left.eq(self.run - 1),
                step_skip.eq(0),
                step_skip_more.eq(self.skip_rows),
            ]
        return m
