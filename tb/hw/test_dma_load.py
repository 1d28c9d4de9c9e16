from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from move_bench import BLOCKS, MEMORY, WIDE, MoveBench, block, check_refused, moves, random_move

from celosia.hw.arch import isa
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import PRESETS
from celosia.hw.arch.registers import Activity
from celosia.hw.axi.reader import ReadMaster
from celosia.hw.dma.load import LoadUnit
from celosia.hw.dma.sizes import LoadSizes

VISIBLE = 3


@dataclass
class Bench(MoveBench):
    """A load unit with its reader, and models of the four memories around it."""

    columns: int = 8
    weight_tiles: int = 5
    parameter_channels: int = 8
    tables: int = 2

    last_write: int = 0
    writes_from: int = 0
    #: Bursts that the reader takes beyond ``outstanding``.
    ahead: int = 0
    #: The parameter memory takes what it is offered.
    takes: bool = True

    def __post_init__(self):
        sizes = (
            "rows columns unified_bytes weight_tiles parameter_channels bus_bytes "
            "burst_beats outstanding"
        )
        given = {name: getattr(self, name) for name in sizes.split()}
        self.unit = LoadUnit(
            sizes=LoadSizes(table_slots=self.tables, **given), visible_cycles=VISIBLE
        )
        self.reader: Any = ReadMaster(
            data_bytes=self.bus_bytes,
            burst_beats=self.burst_beats,
            outstanding=self.outstanding + self.ahead,
        )
        self.dut = Module()
        self.dut.submodules.unit = self.unit
        self.dut.submodules.reader = self.reader
        wiring.connect(self.dut, self.unit.request, self.reader.request_1)
        wiring.connect(self.dut, self.reader.beats_1, self.unit.beats)
        content = bytearray((7 * i + (i >> 8)) % 251 for i in range(MEMORY))
        self.memory = self.memory_with(content)
        self.unified: dict[int, int] = {}
        self.weights: dict[tuple[int, int, int], int] = {}
        self.parameters: dict[tuple[int, int], int] = {}

    async def watch(self, ctx):
        """Take writes, keep time, assert that nothing happens where nothing may."""
        unit = self.unit
        samples = [
            *(unit.write.valid, unit.write.ready, unit.write.payload),
            *(unit.weights.valid, unit.weights.ready, unit.weights.payload),
            *(unit.parameters.valid, unit.parameters.ready, unit.parameters.payload),
            *(unit.done, unit.fault_valid, unit.fault, unit.abort, unit.activity, unit.idle),
            *(unit.request.valid, unit.request.ready, unit.beats.valid, unit.beats.ready),
        ]
        ctx.set(unit.weights.ready, 1)
        ctx.set(unit.parameters.ready, self.takes)
        async for _, _, *seen in ctx.tick().sample(*samples):
            self.cycle += 1
            write, weights, parameters, rest = seen[:3], seen[3:6], seen[6:9], seen[9:]
            done, fault_valid, fault, abort, activity, idle, *bus = rest
            # Heard of from the cycle after its first on.
            stopped = (abort and self.cycle > self.abort_at + 1) or bool(self.faults)
            if write[0] and write[1]:
                self.accept_write(write[2])
            if weights[0]:
                payload = weights[2]
                for lane in range(self.bus_bytes):
                    column = payload.block * self.bus_bytes + lane
                    self.weights[payload.tile, payload.row, column] = payload.data[lane]
            if parameters[0]:
                for lane in range(self.bus_bytes):
                    payload = parameters[2]
                    where = (int(payload.kind.value), payload.offset + lane)
                    self.parameters[where] = payload.data[lane]
            if (write[0] and write[1]) or weights[0] or parameters[0]:
                assert not stopped, "a write after an abort or a fault"
                self.last_write = self.cycle
            self.note(done, fault_valid, fault, activity)
            if all(bus[:2]):
                self.requested.append(self.cycle)
            assert (activity == Activity.IDLE) == bool(idle)
            assert (activity == Activity.BUSY) == (all(bus[:2]) or all(bus[2:]))
            ctx.set(unit.write.ready, not self.rests() and self.cycle >= self.writes_from)
            if self.cycle == self.abort_at:
                ctx.set(unit.abort, 1)
                self.asked_before = len(self.memory.reads)

    def accept_write(self, payload):
        bits = self.unified_bytes.bit_length()
        for lane in range(self.rows):
            assert payload.skip[lane] == 0
            if payload.mask >> lane & 1:
                address = (payload.address + lane) % (1 << bits)
                assert address < self.unified_bytes
                self.unified[address] = payload.data[lane]

    def run(self, instructions, *, ends=None):
        """Run until ``ends()``, by default until all are done, and then until all is idle."""

        def idle(ctx):
            return ctx.get(self.unit.idle) and ctx.get(self.reader.idle)

        reads = partial(self.memory.serve_reads, bus=self.reader.bus)
        self.simulate(self.dut, self.unit, instructions, reads, self.watch, idle=idle, ends=ends)
        assert sum(self.memory.under_way.values()) == 0


def expected(bench, instructions):
    """Return what the three memories hold after ``instructions``."""
    unified, weights, parameters = {}, {}, {}
    content = bench.memory.content
    for one in instructions:
        if one.opcode is Opcode.LOAD:
            unified |= {inside: content[outside] for outside, inside in moves([one])}
        elif one.opcode is Opcode.LOAD_WEIGHTS:
            width = -(-bench.columns // bench.bus_bytes) * bench.bus_bytes
            for i in range(one.tiles * bench.rows * width):
                where = (one.tile + i // width // bench.rows, i // width % bench.rows, i % width)
                weights[where] = content[(one.external + i) % MEMORY]
        else:
            item = 256 if one.kind else 16
            for i in range(one.count * item):
                parameters[one.kind, one.first * item + i] = content[(one.external + i) % MEMORY]
    return unified, weights, parameters


def random_instruction(bench, rng):
    draw = rng.random()
    if draw < 0.6:
        return random_move(Opcode.LOAD, bench, rng)
    if draw < 0.8:
        tile = int(rng.integers(0, bench.weight_tiles))
        return Instruction(
            Opcode.LOAD_WEIGHTS,
            external=int(rng.integers(0, MEMORY // 16)) * 16,
            tile=tile,
            tiles=int(rng.integers(1, bench.weight_tiles - tile + 1)),
        )
    kind = int(rng.integers(0, 2))
    items = bench.tables if kind else bench.parameter_channels
    first = int(rng.integers(0, items))
    return Instruction(
        Opcode.LOAD_PARAMS,
        external=int(rng.integers(0, MEMORY // 16)) * 16,
        kind=kind,
        first=first,
        count=int(rng.integers(1, items - first + 1)),
    )


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("bus_bytes", [4, 8])
def test_random_instructions(rng, stall, bus_bytes):
    bench = Bench(rows=8, columns=12, bus_bytes=bus_bytes, rng=rng, stall=stall)
    instructions = [random_instruction(bench, rng) for _ in range(14)]
    bench.run(instructions)
    assert not bench.faults
    assert (bench.unified, bench.weights, bench.parameters) == expected(bench, instructions)
    assert bench.memory.most_under_way[1] <= bench.outstanding
    assert {number for number, *_ in bench.memory.reads} == {1}


@pytest.mark.parametrize(
    "fields",
    [
        {"external": 3, "length": 1},
        {"external": 2, "length": 512, "unified": 0},
        {"external": 4093, "length": 7, "unified": 1},
        {"external": (1 << 32) - 9, "length": 9},
        {"external": 7, "length": 5, "unified": 507, "rows": 3},
        {"external": 1, "length": 3, "rows": 40, "external_pitch": 3, "unified_pitch": 5},
    ],
)
def test_corners(fields):
    bench = Bench()
    instruction = Instruction(Opcode.LOAD, **fields)
    bench.run([instruction])
    assert not bench.faults
    assert bench.unified == expected(bench, [instruction])[0]


@pytest.mark.parametrize(
    ("opcode", "fields", "bursts"),
    [
        (Opcode.LOAD, {"unified": 511, "length": 2}, 0),
        (Opcode.LOAD, {"length": 8, "rows": 4, "unified": 488, "unified_pitch": 10}, 2),
        (Opcode.LOAD, {"length": 4, "rows": 3, "unified_pitch": 511}, 1),
        (Opcode.LOAD, {"external": (1 << 32) - 3, "length": 4}, 1),
        (Opcode.LOAD, {"external": 1 << 31, "external_pitch": 1 << 31, "rows": 3}, 1),
        (Opcode.LOAD_WEIGHTS, {"tile": 3, "tiles": 3}, 4),
        (Opcode.LOAD_WEIGHTS, {"external": (1 << 32) - 32, "tiles": 2}, 2),
        (Opcode.LOAD_PARAMS, {"first": 65535, "count": 65535}, 0),
        (Opcode.LOAD_PARAMS, {"first": 7, "count": 2}, 0),
        (Opcode.LOAD_PARAMS, {"kind": 1, "first": 1, "count": 2}, 0),
    ],
)
def test_range(opcode, fields, bursts):
    bench = Bench()
    good = Instruction(Opcode.LOAD, external=16, length=4)
    check_refused(bench, [good, Instruction(opcode, **fields), good], isa.Error.RANGE)
    assert len(bench.memory.reads) == 1 + bursts


@pytest.mark.parametrize("bits", range(4, 16))
@pytest.mark.parametrize("name", ["first", "count"])
def test_range_of_numbers_that_are_legal_but_for_their_upper_bits(name, bits):
    wrong = Instruction(Opcode.LOAD_PARAMS, **{name: (1 << bits) + (name == "count")})
    good = Instruction(Opcode.LOAD, external=16, length=4)
    check_refused(Bench(), [good, wrong], isa.Error.RANGE)


def test_error_waits_for_the_writes_before_it():
    bench = Bench(writes_from=80)
    good = Instruction(Opcode.LOAD, external=16, length=4)
    bench.run([good, Instruction(Opcode.LOAD, unified=511, length=2)], ends=lambda: bench.faults)
    assert bench.unified == expected(bench, [good])[0]
    assert len(bench.done) == 1


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("bad", [0, 5, 39])
def test_refused_beat(rng, stall, bad):
    bench = Bench(rng=rng, stall=stall, refuses=lambda address: address // 4 == 100 + bad)
    before = Instruction(Opcode.LOAD, external=0, length=64)
    wrong = Instruction(Opcode.LOAD, external=400, length=160, unified=64)
    check_refused(bench, [before, wrong, before, before], isa.Error.BUS)
    whole = expected(bench, [before, wrong])[0]
    assert bench.unified == {a: v for a, v in whole.items() if a < 64 + 4 * bad}


@pytest.mark.parametrize("turn", range(12))
def test_abort(rng, turn):
    bench = Bench(rng=rng, stall=0.4 if turn % 2 else 0.0)
    bench.abort_at = int(rng.integers(1, 150))
    instructions = [random_instruction(bench, rng) for _ in range(8)]
    bench.run(instructions, ends=lambda: bench.cycle > bench.abort_at + 3)
    assert not bench.faults
    # One may be on the address channel, two wait for it, and one be taken for it in the cycle in
    # which the unit hears of the abort.
    assert len(bench.memory.reads) <= bench.asked_before + 4
    for got, all_of_it in zip(
        (bench.unified.keys(), bench.weights.keys(), bench.parameters.keys()),
        expected(bench, instructions),
        strict=True,
    ):
        assert got <= all_of_it.keys()


def test_abort_while_a_write_waits():
    """A table takes a beat byte by byte, and only what is offered to the end."""
    bench = Bench(takes=False, abort_at=60)
    bench.run([Instruction(Opcode.LOAD_PARAMS, kind=1)], ends=lambda: bench.cycle > 63)
    assert bench.parameters and len(bench.memory.reads) > 1


@pytest.mark.parametrize(("length", "pitch", "external"), BLOCKS)
def test_throughput(length, pitch, external):
    bench = Bench(**WIDE, burst_beats=16, outstanding=32)
    instruction = block(Opcode.LOAD, length, pitch, external)
    bench.run([instruction])
    assert bench.unified == expected(bench, [instruction])[0]
    beats = sum(beats for *_, beats in bench.memory.reads)
    assert bench.done[0] - bench.taken[0] <= 1.1 * (beats + 32) + LoadUnit.LATENCY


def test_a_burst_out_of_range_waits_for_space():
    """The reader takes as many bursts as the unit can expect; then the next one is wrong."""
    bench = Bench(burst_beats=1, latency=60, ahead=40)
    pitches = {"external_pitch": 8, "unified_pitch": 1}
    rows = bench.outstanding + 8
    good = Instruction(Opcode.LOAD, length=1, rows=rows, **pitches)
    wrong = Instruction(Opcode.LOAD, length=2, unified=bench.unified_bytes - 1)
    check_refused(bench, [good, wrong], isa.Error.RANGE)
    assert sum(bench.memory.most_under_way.values()) == rows


def test_instructions_overlap():
    bench = Bench(**WIDE, outstanding=32)
    instructions = [
        Instruction(Opcode.LOAD, external=512 * n, length=64, unified=64 * n) for n in range(40)
    ]
    bench.run(instructions)
    assert bench.unified == expected(bench, instructions)[0]
    assert bench.done[-1] - bench.taken[0] <= 1.1 * (40 * 4 + 32) + LoadUnit.LATENCY


def test_timing_of_done():
    bench = Bench()
    bench.run([Instruction(Opcode.LOAD, external=3, length=9)])
    assert bench.done == [bench.last_write + VISIBLE]


def test_activity():
    bench = Bench(burst_beats=1, outstanding=2, latency=20)
    bench.run([Instruction(Opcode.LOAD, external=3, length=13)])
    last = bench.requested[-1]
    assert set(bench.activity[:last]) == {Activity.IDLE, Activity.MEMORY, Activity.BUSY}
    assert set(bench.activity[last:]) == {Activity.BUSY, Activity.DRAIN, Activity.IDLE}


def test_visible_cycles_refused():
    with pytest.raises(ValueError, match="visible_cycles: wanted at least 1, got 0"):
        LoadUnit(sizes=LoadSizes.of(PRESETS["nano"]), visible_cycles=0)
