"""Control of the matrix unit: its requests, when they come, and where it must stop."""

import numpy as np
import pysim
import pytest
from matrix_passes import MATMUL, matmul, pixels, sizes

from celosia.hw.arch import isa
from celosia.hw.arch.registers import Activity
from celosia.hw.matrix.control import MatrixControl


class Control:
    """Matrix control with a buffer that responds, and a log of its requests."""

    READ_LATENCY = 6
    RESULTS_LATENCY = 17

    def __init__(
        self,
        programs,
        *,
        rows=4,
        weight_rows=1,
        stall=0.0,
        rng=None,
        forwards=True,
        skid=True,
        **disturbed,
    ):
        self.rows, self.unified_bytes, self.depth = rows, 64 * rows, 16
        # Numbers of requests: one whose response is refused, one for which something is wrong, one
        # that the port does not take for some time.
        self.refused, self.wrong, self.held = (
            disturbed.get(name) for name in ("refused", "wrong", "held")
        )
        self.dut = MatrixControl(
            sizes=sizes(rows=rows, weight_rows=weight_rows, forwards=forwards, skid=skid),
            read_latency=self.READ_LATENCY,
            results_latency=self.RESULTS_LATENCY,
        )
        self.programs = programs
        self.rng, self.stall = rng, stall
        self.fired, self.done, self.faults, self.activities, self.idle = [], [], [], [], []
        self.tiles = []
        self.cycle = 0

    async def watch(self, ctx):
        dut = self.dut
        names = ("fired", "done", "fault_valid", "fault", "activity", "idle")
        requested = ("row", "accumulate", "first", "start", "tile")
        outputs = [getattr(dut, name) for name in names + requested]
        refused, wrong = [], []
        while True:
            holds = len(self.fired) == self.held and self.cycle < self.fired[-1][0] + 20
            rests = self.rng is not None and self.rng.random() < self.stall
            ctx.set(dut.request.ready, not (holds or rests))
            ctx.set(dut.read_fault, self.cycle - self.READ_LATENCY in refused)
            if self.wrong is not None:
                ctx.set(dut.wrong, self.cycle - self.RESULTS_LATENCY in wrong)
            port = (dut.request.valid, dut.request.ready, dut.request.payload)
            _, _, valid, ready, payload, *values = await ctx.tick().sample(*port, *outputs)
            now = dict(zip(names + requested, values, strict=True))
            assert now["fired"] == (valid and ready)
            if now["fired"]:
                if len(self.fired) == self.refused:
                    refused.append(self.cycle)
                if len(self.fired) == self.wrong:
                    wrong.append(self.cycle)
                self.fired.append(
                    (self.cycle, (self.lanes(payload), *(now[n] for n in requested[:3])))
                )
            # A tile is on its way before its pass begins, the next not earlier than with it.
            ahead = len(self.tiles) - sum(first for _, (*_, first) in self.fired)
            if now["fired"] and now["first"]:
                assert ahead >= 0
            if now["start"]:
                assert ahead == 0
                self.tiles.append(now["tile"])
            if now["done"]:
                self.done.append(self.cycle)
            if now["fault_valid"]:
                self.faults.append((now["fault"].code, now["fault"].tag))
            self.activities.append(Activity(now["activity"]))
            self.idle.append(now["idle"])
            self.cycle += 1

    def lanes(self, payload):
        return [
            payload.address + lane + payload.skip[lane] * self.rows
            for lane in range(self.rows)
            if payload.mask >> lane & 1
        ]

    def wanted(self):
        """Return all requests, the numbers of the last of each instruction, and the tiles."""
        requests, lasts, tiles = [], [], []
        for fields in self.programs:
            f, step = MATMUL | fields, -1
            for pixel in pixels(self.dut, fields):
                step += pixel["first"]
                tiles += [f["tile"] + step] * pixel["first"]
                lanes = [
                    pixel["address"]
                    + lane
                    # Rows that are skipped before this tap.
                    + (step * self.rows + lane) // f["run"] * f["skip"] * self.rows
                    for lane in range(self.rows)
                    if pixel["mask"] >> lane & 1
                ]
                names = ("row", "accumulate", "first")
                requests.append((lanes, *(pixel[name] for name in names)))
            lasts.append(len(requests) - 1)
        return requests, lasts, tiles

    async def feed(self, ctx):
        for index, fields in enumerate(self.programs):
            await pysim.rest(ctx, self.rng, self.stall)
            await pysim.put(ctx, self.dut.instruction, matmul(index, fields))

    def run(self):
        async def main(ctx):
            await self.feed(ctx)
            while len(self.done) < len(self.programs):
                await ctx.tick()
            await ctx.tick().repeat(2)

        pysim.run(self.dut, main, background=[self.watch], cycles_limit=20_000)
        requests, lasts, tiles = self.wanted()
        assert [request for _, request in self.fired] == requests
        assert self.tiles == tiles
        cycles = [cycle for cycle, _ in self.fired]
        assert self.done == [cycles[last] + self.RESULTS_LATENCY for last in lasts]
        assert not self.faults
        return cycles

    def until_fault(self, cycles=300):
        """Feed the instructions, let ``cycles`` pass and return the faults."""

        async def main(ctx):
            await ctx.tick().repeat(cycles)

        pysim.run(self.dut, main, background=[self.feed, self.watch])
        return self.faults


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(
    ("rows", "weight_rows", "small"),
    [(4, 1, False), (4, 4, False), (8, 2, False), (4, 1, True), (8, 1, True)],
)
def test_random_programs(rows, weight_rows, small, stall, rng):
    programs = [
        {
            "unified": int(rng.integers(0, 10)),
            **{f"{axis}_count": int(rng.integers(1, 3)) for axis in "xyz"},
            **{f"{axis}_stride": int(rng.integers(0, 9)) for axis in "xyz"},
            "taps": int(rng.integers(1, 3 * rows + 2)),
            "run": int(rng.integers(1, 9)),
            "skip": int(rng.integers(0, 2)),
            "tile": int(rng.integers(0, 5)),
            "accumulator": int(rng.integers(0, 9)) + 16 * int(rng.integers(0, 2)),
            "accumulate": int(rng.integers(0, 2)),
        }
        for _ in range(25)
    ]
    form = {"forwards": not small, "skid": not small}
    bench = Control(programs, rows=rows, weight_rows=weight_rows, stall=stall, rng=rng, **form)
    cycles = bench.run()
    spacing(bench, cycles)
    # What a cycle was spent on: exactly the cycles of requests are BUSY.
    busy = [n for n, activity in enumerate(bench.activities) if activity is Activity.BUSY]
    assert busy == cycles
    idle = [n for n, activity in enumerate(bench.activities) if activity is Activity.IDLE]
    assert all(bench.idle[n] for n in idle)
    assert idle[0] == 0 and idle[-1] == len(bench.activities) - 1
    between = range(cycles[0], bench.done[-1])
    assert not any(bench.idle[n] for n in between if n <= cycles[-1])
    assert (Activity.MEMORY in bench.activities) == (stall > 0)


def spacing(bench, cycles):
    """Assert what Accumulators ask: additions to a row 4 apart, or nothing else between.

    The second only where they forward sums.
    """
    latest = {}
    for n, (cycle, (_, row, accumulate, _)) in enumerate(bench.fired):
        if accumulate and row in latest:
            before = latest[row]
            others = [r for _, (_, r, _, _) in bench.fired[before + 1 : n] if r != row]
            alone = bench.dut.sizes.forwards and not others
            assert alone or cycle - cycles[before] >= 4
        latest[row] = n


@pytest.mark.parametrize("forwards", [False, True])
@pytest.mark.parametrize("behind", range(5))
@pytest.mark.parametrize("pixels", [6, 9])
def test_an_instruction_that_adds_to_rows_just_written_waits_for_them(behind, pixels, forwards):
    first = {"x_count": pixels, "x_stride": 1, "taps": 4}
    adds = {"accumulator": pixels - 1 - behind, "accumulate": 1}
    # The first passes of the program wait for its skips, these do not.
    programs = [first, first, adds | {"x_count": 2}, first]
    bench = Control(programs, weight_rows=4, forwards=forwards)
    cycles = bench.run()
    spacing(bench, cycles)
    # What overwrites rows need not wait.
    assert cycles[pixels] - cycles[pixels - 1] == 1


def test_rows_wait_for_a_last_pixel_that_was_held_up():
    programs = [{}, {"accumulator": 3}, {"accumulator": 2, "accumulate": 1, "x_count": 2}]
    bench = Control(programs, weight_rows=4, held=1)
    spacing(bench, bench.run())


@pytest.mark.parametrize("skid", [False, True])
@pytest.mark.parametrize(
    ("pixels", "forwards", "each"),
    [
        (1, True, 1),
        (1, False, 4),
        *((n, f, max(n, 4)) for n in (2, 3, 4, 7) for f in (True, False)),
    ],
)
def test_cycles_of_a_pass(pixels, forwards, each, skid):
    program = {"taps": 32, "x_count": pixels, "x_stride": 1}
    bench = Control([program], weight_rows=4, forwards=forwards, skid=skid)
    cycles = bench.run()
    firsts = [cycle for cycle, (_, _, _, first) in bench.fired if first]
    assert np.diff(firsts).tolist() == [each] * 7
    # Within a pass one pixel follows the other.
    assert all(b - a == 1 for a, b in zip(cycles, cycles[1:], strict=False) if b not in firsts)


@pytest.mark.parametrize("forwards", [False, True])
def test_single_pixels_on_one_row_wait_for_each_other(forwards):
    """Passes, and instructions that add to the row of the one before; only without forwarding."""
    adds = {"taps": 8, "accumulate": 1}
    bench = Control([{"taps": 8}, adds, adds], weight_rows=4, forwards=forwards)
    cycles = bench.run()
    spacing(bench, cycles)
    # The last pass of an instruction always has its sums stored before the next one adds to them.
    assert np.diff(cycles).tolist()[:1] == [1 if forwards else 4]
    assert all(gap >= 4 for gap in np.diff(cycles)[1::2])
    # Neither an instruction's end nor a wait for its semaphores.
    between = bench.activities[cycles[0] + 1 : cycles[1]]
    assert between == [Activity.WEIGHTS] * (cycles[1] - cycles[0] - 1)
    # The sums of an instruction are awaited as soon as the next one is ready. With forwarding they
    # are there by then.
    before = [bench.activities[cycle - 1] for cycle in cycles[2::2]]
    assert before == [Activity.WEIGHTS if forwards else Activity.DRAIN] * 2


def test_waiting_for_weights_is_reported():
    bench = Control([{"taps": 32}], rows=8, weight_rows=1)
    cycles = bench.run()
    # The first pass waits for the skips too, while the second tile loads already.
    assert np.diff(cycles[1:]).tolist() == [8] * 2
    between = bench.activities[cycles[1] + 1 : cycles[2]]
    assert between == [Activity.WEIGHTS] * 7
    after = bench.activities[cycles[-1] + 1 : bench.done[-1]]
    assert set(after) == {Activity.DRAIN}


@pytest.mark.parametrize(
    ("fields", "fired"),
    [
        ({"taps": 12, "tile": 7}, 1),
        ({"unified": 254, "x_count": 4, "x_stride": 1}, 2),
        ({"accumulator": 14, "x_count": 3}, 2),
        ({"accumulator": 30, "x_count": 3}, 2),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_what_lies_outside_faults_once_with_its_index(fields, fired, before):
    bench = Control([{}] * before + [fields], weight_rows=4)
    assert bench.until_fault() == [(isa.Error.RANGE, before)]
    assert len(bench.fired) <= before + fired
    assert bench.idle[-1]


@pytest.mark.parametrize("refused", [0, 8, 9, 17, 18])
def test_refused_reads_name_their_instruction(refused):
    """The last pixel of an instruction, too, which the first of the next one follows at once."""
    programs = [{"x_count": 9}, {"x_count": 9, "accumulator": 16}, {"x_count": 9}]
    bench = Control(programs, weight_rows=4, refused=refused)
    assert bench.until_fault() == [(isa.Error.RANGE, refused // 9)]
    assert bench.idle[-1]


@pytest.mark.parametrize("wrong", range(7))
def test_wrong_parity_names_the_instruction_whose_request_it_was(wrong):
    """Instructions before it are done, it is not, whichever of its requests it was."""
    programs = [{"x_count": 2}, {"x_count": 3, "accumulator": 16}, {}, {"x_count": 2}]
    bench = Control(programs, weight_rows=4, wrong=wrong)
    index = [0, 0, 1, 1, 1, 2, 3][wrong]
    assert bench.until_fault() == [(isa.Error.MEMORY, index)]
    assert len(bench.done) == index
    assert bench.idle[-1]


def test_right_parity_disturbs_nothing():
    bench = Control([{"x_count": 2, "taps": 9}, {"accumulator": 3}] * 3, wrong=-1)
    bench.run()


async def test_abort_stops_requests_and_drains():
    bench = Control([{"x_count": 8, "y_count": 8, "accumulator": 0}] * 2)
    ctx = await pysim.simulation(bench.dut, background=[bench.feed, bench.watch])
    while len(bench.fired) < 3:
        await ctx.tick()
    ctx.set(bench.dut.abort, 1)
    requested = len(bench.fired)
    await ctx.tick()
    assert not ctx.get(bench.dut.request.valid) and not ctx.get(bench.dut.idle)
    assert not ctx.get(bench.dut.instruction.ready)
    await ctx.tick().repeat(bench.RESULTS_LATENCY)
    assert ctx.get(bench.dut.idle)
    assert len(bench.fired) <= requested + 1 and not bench.faults


def test_construction():
    dut = Control([]).dut
    assert (dut.sizes.rows, dut.sizes.unified_bytes) == (4, 256)
    assert (dut.read_latency, dut.results_latency) == (6, 17)
    assert dut.prefetcher.sizes == dut.reads.sizes == dut.sizes


@pytest.mark.parametrize("refused", [0, 1])
def test_an_instruction_that_faults_is_never_done(refused):
    bench = Control([{"x_count": 2, "x_stride": 1}], weight_rows=4, refused=refused)
    assert bench.until_fault() == [(isa.Error.RANGE, 0)]
    assert not bench.done
