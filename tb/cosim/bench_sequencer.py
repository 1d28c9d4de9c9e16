"""The sequencer between a memory and four units made of Python."""

from collections import deque
from typing import Any

import cocotb
from bfm import Ports

from celosia.hw.arch import commands, isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, VALUE_BITS, WORD_BYTES, register_limits
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.streams import INDEX_BITS
from celosia.sim.schedule import listing, schedule

UNITS = ("load", "store", "matrix", "vector")
OPCODES = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR, Opcode.FILL)
PROGRAM = 0x2000


class Bench:
    """Answers fetches, plays the units, and logs when each instruction ran."""

    def __init__(self, ports: Ports, *, stall: float, longest: int) -> None:
        self.ports = ports
        self.stall = stall
        self.longest = longest
        self.words = b""
        self.program: tuple[Instruction, ...] = ()
        self.refused = -1
        self.failing: dict[str, int] = {}
        self.log: dict[int, tuple[int, int]] = {}
        cocotb.start_soon(self._memory())
        for name in UNITS:
            cocotb.start_soon(self._unit(name))

    async def _memory(self) -> None:
        ports, bus = self.ports, self.ports.config.bus_bytes
        beats: deque[dict[str, Any]] = deque()
        ready = offered = False
        while True:
            await ports.edge
            if ready and ports.bits("request__valid"):
                burst = ports.get("request__payload")
                for n in range(burst["beats"] + 1):
                    place = burst["address"] + n * bus - PROGRAM
                    word = int.from_bytes(self.words[place : place + bus], "little")
                    error = int(place == self.refused)
                    last = int(n == burst["beats"])
                    beats.append({"data": word, "error": error, "last": last})
            if offered and ports.bits("beats__ready"):
                beats.popleft()
                offered = False
            offered = offered or (bool(beats) and not ports.rests(self.stall))
            if offered:
                ports.set("beats__payload", beats[0])
            ports.set("beats__valid", offered)
            ready = not ports.rests(self.stall)
            ports.set("request__ready", ready)

    async def _take(self, name: str) -> int:
        """Wait for an instruction and return its number."""
        ports = self.ports
        while True:
            ready = not ports.rests(self.stall) and not ports.bits(f"{name}__abort")
            ports.set(f"{name}__instruction__ready", ready)
            ports.set(f"{name}__idle", 1)
            ports.set(f"{name}__activity", Activity.IDLE)
            await ports.edge
            if ready and ports.bits(f"{name}__instruction__valid"):
                break
        ports.set(f"{name}__instruction__ready", 0)
        ports.set(f"{name}__idle", 0)
        word = ports.bits(f"{name}__instruction__payload")
        index = word & ((1 << INDEX_BITS) - 1)
        instruction = self.program[index]
        got = isa.LAYOUTS[instruction.opcode].from_bits(word >> INDEX_BITS)
        for field, value in instruction.fields.items():
            found = getattr(got, field)
            assert getattr(found, "value", found) == value, f"{name} got {index}"
        assert got.opcode == instruction.opcode
        return index

    async def _unit(self, name: str) -> None:
        ports = self.ports
        while True:
            index = await self._take(name)
            begin = ports.cycle
            for _ in range(ports.rng.randint(1, self.longest)):
                ports.set(f"{name}__activity", ports.rng.choice(list(Activity)[1:5]))
                await ports.edge
            signal = "done"
            if self.failing.get(name) == index:
                signal = "fault_valid"
                ports.set(f"{name}__fault", {"code": isa.Error.RANGE, "index": index})
            else:
                self.log[index] = (begin, ports.cycle)
            ports.set(f"{name}__{signal}", 1)
            await ports.edge
            ports.set(f"{name}__{signal}", 0)

    async def run(self, program: list[Instruction] | bytes, *, watchdog: int = 3000) -> Any:
        """Run a program to its end, reset, and return the error as (code, unit, index), or None."""
        ports = self.ports
        self.words = program if isinstance(program, bytes) else commands.encode(program)
        self.program = listing(self.words, ports.config).instructions
        self.log.clear()
        ports.set("program_address", PROGRAM)
        ports.set("program_length", len(self.words) // WORD_BYTES)
        ports.set("watchdog", watchdog)
        for strobe, pause in (("clear_counters", COUNTERS_PER_UNIT + 2), ("start", 1)):
            ports.set(strobe, 1)
            await ports.edge
            ports.set(strobe, 0)
            await ports.ticks(pause)
        await ports.until(lambda: ports.bits("done") or ports.bits("error"), 20_000, "the end")
        await ports.until(lambda: not ports.bits("draining"), 1000, "drained")
        await self._check_counters()
        error = None
        if ports.bits("error"):
            code, unit = isa.Error(ports.get("code")), isa.Unit(ports.get("unit"))
            error = (code, unit, ports.get("index"))
        ports.set("reset", 1)
        await ports.edge
        ports.set("reset", 0)
        await ports.until(lambda: ports.bits("clear"), 200, "clear")
        await ports.reset()  # as the core does with all its rooms
        return error

    async def _check_counters(self) -> None:
        ports = self.ports
        for unit in isa.Unit:
            total = 0
            for place in range(COUNTERS_PER_UNIT):
                ports.set("counter_address", unit.value * COUNTERS_PER_UNIT + place)
                await ports.ticks(3)
                total += ports.bits("counter_value")
            cycles = ports.bits("cycles")
            assert total == cycles, f"{unit.name}: {total} cycles counted of {cycles}"


def random_program(ports: Ports, count: int) -> tuple[list[Instruction], list[tuple[int, int]]]:
    """Return a program, and which instructions its semaphores put in order."""
    rng = ports.rng
    pairs: list[tuple[isa.Unit, isa.Unit]] = []
    posted: dict[tuple[isa.Unit, isa.Unit], list[int]] = {}
    program, edges = [], []
    for index in range(count):
        opcode = rng.choice(OPCODES)
        unit, wait, post = isa.UNITS[opcode], 0, 0
        for pair, queue in posted.items():
            if pair[1] is unit and queue and rng.random() < 0.7:
                wait |= 1 << pairs.index(pair)
                edges.append((queue.pop(0), index))
        target = isa.UNITS[rng.choice(OPCODES)]
        if target is not unit:
            pair = (unit, target)
            if pair not in pairs:
                pairs.append(pair)
            posted.setdefault(pair, []).append(index)
            post = 1 << pairs.index(pair)
        program.append(Instruction(opcode, wait=wait, post=post))
        if rng.random() < 0.05:
            program[-1] = Instruction(Opcode.FENCE, wait=wait, post=post)
    return [*program, Instruction(Opcode.HALT)], edges


@cocotb.test()
async def random_programs(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"], longest=25)
    overlaps = 0
    for _ in range(ports.options["programs"]):
        program, edges = random_program(ports, 40)
        assert await bench.run(program) is None
        ran = bench.log
        executed = [i for i, instruction in enumerate(program) if instruction.opcode in OPCODES]
        assert sorted(ran) == executed
        fences = [i for i, instruction in enumerate(program) if instruction.opcode is Opcode.FENCE]
        for before, after in edges:
            if before in ran and after in ran:
                assert ran[before][1] < ran[after][0], f"{after} did not wait for {before}"
        for fence in fences:
            ends = [ran[i][1] for i in executed if i < fence]
            begins = [ran[i][0] for i in executed if i > fence]
            assert not ends or not begins or max(ends) < min(begins), f"fence {fence}"
        for unit in isa.Unit:
            mine = [ran[i] for i in executed if program[i].unit is unit]
            assert all(a[1] <= b[0] for a, b in zip(mine, mine[1:], strict=False))
        spans = sorted(ran.values())
        overlaps += sum(a[1] > b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert overlaps


def word(code: int, value: int) -> bytes:
    return (code | value << CODE_BITS).to_bytes(WORD_BYTES, "little")


@cocotb.test()
async def illegal_instructions(dut: Any) -> None:
    """A field just past each of its limits, and what ``sim.schedule`` says of it."""
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"], longest=5)
    config = ports.config
    candidates = [
        word(register.code, value)
        for registers in REGISTERS.values()
        for register in registers
        for limit in (register_limits(config)[register.code],)
        for value in (limit.low - 1, limit.high + 1, limit.low + limit.multiple // 2)
        if 0 <= value < 1 << VALUE_BITS
    ]
    candidates += [word(code, 0) for code in (0, 11, 127)]
    candidates += [word(opcode.value, 1 << VALUE_BITS - 1) for opcode in Opcode]
    illegal = 0
    for wrong in ports.rng.sample(candidates, ports.options["illegal"]):
        program = commands.encode([Instruction(Opcode.LOAD), wrong, Instruction(Opcode.HALT)])
        listed = listing(program, config)
        failure = schedule(listed, config.queue_depth).failure
        expected = failure and (failure.error, failure.unit, failure.index)
        assert await bench.run(program) == expected, f"{wrong.hex()}: wanted {expected}"
        illegal += failure is not None
    assert illegal


@cocotb.test()
async def other_errors(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports, stall=ports.options["stall"], longest=20)
    sequencer = isa.Unit.SEQUENCER
    halt = Instruction(Opcode.HALT)
    good = [Instruction(opcode) for opcode in OPCODES]
    assert await bench.run(good) == (isa.Error.PROGRAM, sequencer, len(good))
    # A beat holds the words of one instruction or more.
    bench.refused = ports.config.bus_bytes
    first = ports.config.bus_bytes // WORD_BYTES
    assert await bench.run([*good, halt]) == (isa.Error.BUS, sequencer, first)
    bench.refused = -1
    for place, name in enumerate(("load", "store", "matrix", "vector")):
        bench.failing = {name: place}
        assert await bench.run([*good, halt]) == (isa.Error.RANGE, isa.Unit[name.upper()], place)
    bench.failing = {}
    stuck = [*good, Instruction(Opcode.STORE, wait=1 << 9), halt]
    failure = schedule(listing(stuck, ports.config), ports.config.queue_depth).failure
    assert failure is not None
    expected = (isa.Error.WATCHDOG, isa.Unit.STORE, len(good))
    assert (failure.error, failure.unit, failure.index) == expected
    assert await bench.run(stuck, watchdog=200) == expected
    assert await bench.run([*good, halt]) is None
