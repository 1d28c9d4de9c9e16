from collections import deque
from dataclasses import dataclass
from functools import partial

import pytest
from move_bench import BLOCKS, MEMORY, WIDE, MoveBench, block, check_refused, moves, random_move

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import Activity
from celosia.hw.dma.gather import Gatherer
from celosia.hw.dma.sizes import StoreSizes
from celosia.hw.dma.store import StoreUnit

READ_LATENCY = 6


@dataclass
class Bench(MoveBench):
    """A store unit between models of the unified buffer and of external memory."""

    read_latency: int = READ_LATENCY
    wrong_read_at: int | None = None
    #: The response whose bytes have wrong parity.
    parity: bool = False
    wrong_bytes_at: int | None = None
    #: First and last page of external memory.
    bounds: tuple[int, int] | None = None

    def __post_init__(self):
        self.dut = StoreUnit(sizes=StoreSizes.of(self), outstanding=self.outstanding)
        self.unified = bytes((11 * i + (i >> 8)) % 253 for i in range(self.unified_bytes))
        self.memory = self.memory_with(bytearray(MEMORY))

    def read(self, request):
        lanes = []
        for lane in range(self.rows):
            assert request.skip[lane] == 0
            address = (request.address + lane) % (2 * self.unified_bytes)
            if request.mask >> lane & 1:
                assert address < self.unified_bytes
            lanes.append(self.unified[address] if request.mask >> lane & 1 else 0)
        return lanes

    async def watch(self, ctx):
        """Be the unified buffer, and keep time."""
        dut = self.dut
        responses: deque[list[int] | None] = deque([None] * (self.read_latency - 1))
        reads = 0
        responded = False
        if self.bounds:
            ctx.set(dut.bounds, dict(zip(("base", "limit"), self.bounds, strict=True)))
        samples = (
            *(dut.reads.request.valid, dut.reads.request.ready, dut.reads.request.payload),
            *(dut.done, dut.fault_valid, dut.fault, dut.activity, dut.idle),
            *(dut.bus.wvalid, dut.bus.wready),
        )
        async for _, _, *seen in ctx.tick().sample(*samples):
            valid, ready, request, done, fault_valid, fault, activity, idle, *sent = seen
            self.cycle += 1
            responses.append(self.read(request) if valid and ready else None)
            if valid and ready:
                self.requested.append(self.cycle)
            if self.parity:
                # One cycle after the response.
                ctx.set(dut.reads.wrong, responded and reads == self.wrong_bytes_at)
            response = responses.popleft()
            responded = response is not None
            reads += response is not None
            ctx.set(dut.reads.valid, response is not None)
            ctx.set(dut.reads.fault, response is not None and reads == self.wrong_read_at)
            ctx.set(dut.reads.data, response or [0xEE] * self.rows)
            self.note(done, fault_valid, fault, activity)
            assert (activity == Activity.IDLE) == bool(idle)
            assert (activity == Activity.BUSY) == ((valid and ready) or all(sent))
            if idle:
                assert not any(responses)
            ctx.set(dut.reads.request.ready, not self.rests())
            if self.cycle == self.abort_at:
                ctx.set(dut.abort, 1)
                self.asked_before = len(self.memory.writes)

    def idle(self, ctx):
        return ctx.get(self.dut.idle)

    def run(self, instructions, *, ends=None):
        """Run until ``ends()``, by default until all are done, and then until the unit is idle."""
        writes = partial(self.memory.serve_writes, bus=self.dut.bus)
        self.simulate(
            self.dut, self.dut, instructions, writes, self.watch, idle=self.idle, ends=ends
        )


def writes(bench, instructions):
    """Yield place and value of each byte of external memory that is written, in order."""
    return ((outside, bench.unified[inside]) for outside, inside in moves(instructions))


def expected(bench, instructions):
    """Return the bytes of external memory after ``instructions``, by place."""
    return dict(writes(bench, instructions))


def check_content(bench, instructions):
    written = expected(bench, instructions)
    assert bench.memory.content == bytes(written.get(i, 0) for i in range(MEMORY))


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.7])
@pytest.mark.parametrize(("rows", "bus_bytes"), [(4, 4), (16, 8)])
def test_random_instructions(rng, stall, rows, bus_bytes):
    bench = Bench(rows=rows, bus_bytes=bus_bytes, rng=rng, stall=stall)
    instructions = [random_move(Opcode.STORE, bench, rng) for _ in range(12)]
    bench.run(instructions)
    assert not bench.faults
    check_content(bench, instructions)


@pytest.mark.parametrize(
    "fields",
    [
        {"external": 3, "length": 1},
        {"external": 2, "length": 512},
        {"external": 4093, "length": 7, "unified": 1},
        {"external": (1 << 32) - 9, "length": 9},
        {"external": 7, "length": 5, "unified": 507, "rows": 3, "external_pitch": 5},
        {"external": 1, "length": 3, "rows": 40, "external_pitch": 3, "unified_pitch": 5},
    ],
)
def test_corners(fields):
    bench = Bench()
    instruction = Instruction(Opcode.STORE, **fields)
    bench.run([instruction])
    assert not bench.faults
    check_content(bench, [instruction])


@pytest.mark.parametrize(
    ("fields", "bursts"),
    [
        ({"unified": 511, "length": 2}, 0),
        ({"length": 8, "rows": 4, "unified": 488, "unified_pitch": 10}, 2),
        ({"length": 4, "rows": 3, "unified_pitch": 511}, 1),
        ({"external": (1 << 32) - 3, "length": 4}, 1),
        ({"external": 1 << 31, "external_pitch": 1 << 31, "rows": 3}, 1),
    ],
)
def test_range(fields, bursts):
    bench = Bench()
    good = Instruction(Opcode.STORE, external=16, length=4)
    check_refused(bench, [good, Instruction(Opcode.STORE, **fields), good], isa.Error.RANGE)
    assert len(bench.memory.writes) == 1 + bursts


@pytest.mark.parametrize(
    ("fields", "bursts"),
    [
        ({"external": 0x2FFF, "length": 1}, 0),
        ({"external": 0x2FFF, "length": 2}, 0),
        ({"external": 0x5000, "length": 1}, 0),
        ({"external": 0x4FFD, "length": 4}, 1),
        ({"external": 0x8000_3000, "length": 4}, 0),
        ({"external": 0x4F00, "length": 16, "rows": 30, "external_pitch": 16}, 16),
        ({"external": 0x3000, "length": 1, "rows": 2, "external_pitch": 0xFFFF_E000}, 1),
    ],
)
def test_bounds(fields, bursts):
    """A burst outside the bounds, here pages 3 and 4, never reaches the bus."""
    bench = Bench(bounds=(3, 4))
    good = Instruction(Opcode.STORE, external=0x3000, length=4)
    # A row past 4 GiB is out of range with any bounds.
    past = fields.get("external_pitch", 0) > 1 << 31
    error = isa.Error.RANGE if past else isa.Error.BUS
    check_refused(bench, [good, Instruction(Opcode.STORE, **fields), good], error)
    assert len(bench.memory.writes) == 1 + bursts
    assert all(0x3000 <= address < 0x5000 for _, address, _ in bench.memory.writes)


def test_all_pages_within_the_bounds():
    bench = Bench(bounds=(3, 4))
    ends = [{"external": 0x3000, "length": 5}, {"external": 0x4FF0, "length": 16}]
    bench.run([Instruction(Opcode.STORE, **fields) for fields in ends])
    assert not bench.faults


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("bad", [0, 5, 39])
@pytest.mark.parametrize("refusal", [2, 3])
def test_refused_burst(rng, stall, bad, refusal):
    bench = Bench(
        rng=rng, stall=stall, refuses=lambda address: address // 4 == 100 + bad, refusal=refusal
    )
    before = Instruction(Opcode.STORE, external=0, length=64)
    wrong = Instruction(Opcode.STORE, external=400, length=160, unified=64)
    check_refused(bench, [before, wrong, before, before], isa.Error.BUS)
    whole = expected(bench, [before, wrong])
    content = bench.memory.content
    assert all(content[i] in (0, whole.get(i, 0)) for i in range(MEMORY))
    assert all(content[i] == whole[i] for i in range(64))


@pytest.mark.parametrize("parity", [False, True])
def test_fault_of_a_read(parity):
    bench = Bench(wrong_read_at=3, parity=parity)
    bench.run([Instruction(Opcode.STORE, length=64)], ends=lambda: bench.faults)
    assert bench.faults == [(isa.Error.RANGE, 0)]
    assert not bench.done


@pytest.mark.parametrize("wrong", [1, 2, 7, 8, 9, 16, 17, 24])
@pytest.mark.parametrize("latency", [1, 40])
def test_bytes_of_wrong_parity_name_the_instruction_that_read_them(wrong, latency):
    bench = Bench(parity=True, wrong_bytes_at=wrong, outstanding=8, latency=latency)
    each = [Instruction(Opcode.STORE, length=32, external=64 * n) for n in range(3)]
    bench.run(each, ends=lambda: bench.faults)
    reader = (wrong - 1) // 8
    assert bench.faults == [(isa.Error.MEMORY, reader)]
    assert len(bench.done) <= reader


def test_bytes_of_right_parity_are_stored():
    bench = Bench(parity=True)
    each = [Instruction(Opcode.STORE, length=30, external=64 * n, unified=n) for n in range(3)]
    bench.run(each)
    assert not bench.faults
    check_content(bench, each)


@pytest.mark.parametrize("turn", range(16))
def test_abort(rng, turn):
    bench = Bench(rng=rng, stall=0.4 if turn % 2 else 0.0, latency=1 if turn % 4 < 2 else 9)
    bench.abort_at = int(rng.integers(1, 150))
    instructions = [random_move(Opcode.STORE, bench, rng) for _ in range(8)]
    bench.run(instructions, ends=lambda: bench.cycle > bench.abort_at + 3)
    assert not bench.faults
    # The address channel holds two; what it was given gets all its beats, or idle never comes.
    assert len(bench.memory.writes) <= bench.asked_before + 2
    possible = [{0} for _ in range(MEMORY)]
    for place, byte in writes(bench, instructions):
        possible[place].add(byte)
    assert all(byte in of for byte, of in zip(bench.memory.content, possible, strict=True))


def test_abort_ends_a_long_block():
    bench = Bench(abort_at=40)
    bench.run([Instruction(Opcode.STORE, rows=65_535, length=1)], ends=lambda: bench.cycle > 40)
    assert bench.cycle < 100


def test_outstanding_is_reached():
    bench = Bench(outstanding=6, burst_beats=1, latency=60)
    bench.run([Instruction(Opcode.STORE, length=64)])
    assert bench.memory.most_unanswered == 6


@pytest.mark.parametrize(("length", "pitch", "external"), BLOCKS)
def test_throughput(length, pitch, external):
    bench = Bench(**WIDE, burst_beats=16, outstanding=64)
    instruction = block(Opcode.STORE, length, pitch, external)
    bench.run([instruction])
    check_content(bench, [instruction])
    beats = sum(beats for *_, beats in bench.memory.writes)
    fill = StoreUnit.LATENCY + READ_LATENCY
    assert bench.done[0] - bench.taken[0] <= 1.1 * (beats + 32) + fill


@pytest.mark.parametrize("latency", [READ_LATENCY, Gatherer.SPACE - 4])
def test_a_beat_each_cycle_before_a_slow_buffer(latency):
    bench = Bench(rows=16, bus_bytes=16, unified_bytes=8192, burst_beats=64, read_latency=latency)
    bench.run([Instruction(Opcode.STORE, length=64 * 16)])
    sent = [cycle for cycle, activity in enumerate(bench.activity) if activity is Activity.BUSY]
    # From the first read to the last beat without a break.
    assert sent == list(range(sent[0], sent[-1] + 1))
    assert bench.requested == list(range(bench.requested[0], bench.requested[0] + 64))


def test_instructions_overlap():
    bench = Bench(**WIDE, outstanding=64)
    instructions = [
        Instruction(Opcode.STORE, external=512 * n, length=64, unified=64 * n) for n in range(30)
    ]
    bench.run(instructions)
    check_content(bench, instructions)
    fill = StoreUnit.LATENCY + READ_LATENCY
    assert bench.done[-1] - bench.taken[0] <= 1.1 * (30 * 4 + 32) + fill


@pytest.mark.parametrize("cycle", range(6, 20))
def test_idle_waits_for_reads(cycle):
    bench = Bench(latency=1, abort_at=cycle)
    bench.run([Instruction(Opcode.STORE, length=4)], ends=lambda: bench.cycle > cycle + 1)


class BeatsRest:
    """Draws that make the memory take no beat in the first ``cycles``, but every address."""

    def __init__(self, cycles):
        self.draws = 2 * cycles

    def random(self):
        # The memory draws for the address first.
        self.draws -= 1
        return float(self.draws < 0 or self.draws % 2)


def test_reads_wait_for_a_bus_that_waits():
    bench = Bench(outstanding=16, burst_beats=16)
    bench.memory.rng, bench.memory.stall = BeatsRest(300), 0.5
    instruction = Instruction(Opcode.STORE, length=300, unified=5)
    bench.run([instruction])
    # The oldest beat is in the register of the bus.
    assert sum(cycle < 300 for cycle in bench.requested) == Gatherer.SPACE + 1
    check_content(bench, [instruction])


def test_activity():
    # The bus holds up what was read, and responds late.
    bench = Bench(outstanding=2, latency=30)
    bench.run([Instruction(Opcode.STORE, external=3, length=45)])
    last = bench.requested[-1]
    assert set(bench.activity[:last]) == {Activity.IDLE, Activity.MEMORY, Activity.BUSY}
    assert Activity.DRAIN in bench.activity[last:]
    # What was requested last has come.
    assert Activity.MEMORY not in bench.activity[last + READ_LATENCY :]
