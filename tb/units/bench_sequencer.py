"""The sequencer between external memory and four units that take random times."""

from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block
from cosim.memories import BurstMemory

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import WORD_BYTES, encode
from celosia.hw.arch.config import MOST_COUNT, PROGRAM_BYTES, Config
from celosia.hw.arch.isa import EXECUTING, LAYOUTS, Instruction, Opcode, Unit
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.sim.check.order import Clocks
from celosia.sim.check.schedule import listing, schedule
from celosia.sw.fuzz.programs.faulty import faulty
from celosia.sw.fuzz.programs.legal import legal

#: First byte of a program.
CODE = 0x1000
#: Errors that the sequencer itself notices: kinds of ``faulty``.
KINDS = ("opcode", "field", "no_halt", "stuck", "flip", "overflow")

End = tuple[isa.Error, Unit, int]


def make(config: Config) -> Any:
    return block(config, "sequencer")


class SequencerBench(Bench):
    """The sequencer, its memory, and units that record when they ran an instruction.

    ``ran``: first and last cycle of each instruction; ``ended``: those after which their unit was
    idle; ``failing``: the instruction with which its unit reports RANGE; ``drain``: cycles from
    ``done`` until a unit is idle; ``counts``: counters of each unit by activity.
    """

    async def begin(self) -> None:
        await self.start()
        self.content = np.zeros(1 << 16, np.uint8)
        self.memory = BurstMemory(self, self.ports.request, self.ports.beats, self.content)
        self.failing, self.drain = -1, 1
        self.tags: dict[Unit, int] = dict.fromkeys(EXECUTING, 0)
        self.load(b"")
        cocotb.start_soon(self.memory.serve())
        for unit in EXECUTING:
            cocotb.start_soon(self.work(unit))

    def load(self, words: bytes) -> None:
        """Put a program into the memory."""
        self.content[:] = self.numbers.integers(0, 256, self.content.size)
        self.content[CODE : CODE + len(words)] = np.frombuffer(words, np.uint8)
        self.listed = listing(words, self.config)
        self.count = len(words) // WORD_BYTES
        self.ran: dict[int, tuple[int, int]] = {}
        self.ended: set[int] = set()
        self.counts: dict[Unit, list[int]] = {}
        self.queues: dict[Unit, list[int]] = {unit: [] for unit in EXECUTING}
        for index, instruction in enumerate(self.listed.instructions):
            if instruction.unit in self.queues:
                self.queues[instruction.unit].append(index)

    def check(self, unit: Unit, payload: Any) -> int:
        """Compare an instruction that a unit takes with the listing; return its index."""
        index = self.queues[unit].pop(0)
        instruction = self.listed.instructions[index]
        bits = payload.as_bits()
        assert bits % (1 << streams.TAG_BITS) == self.tags[unit] % (1 << streams.TAG_BITS)
        self.tags[unit] += 1
        layout = LAYOUTS[instruction.opcode]
        fields = layout.from_bits(bits >> streams.TAG_BITS & (1 << layout.size) - 1)
        # Semaphores are no matter of a unit.
        for name in instruction.fields.keys() - {"wait", "post"}:
            value = getattr(fields[name], "value", fields[name])
            assert value == instruction.fields[name], f"{index}: {instruction}, {name}: {value}"
        code = self.listed.instructions
        fences = [n for n in range(index) if code[n].opcode is Opcode.FENCE]
        before = {n for n in self.ran if fences and n < fences[-1]}
        assert before <= self.ended, f"{index}: after a fence, and a unit is not idle"
        return index

    async def work(self, unit: Unit) -> None:
        """Take the instructions of a unit, for ever; each runs for a random time."""
        port = getattr(self.ports, unit.name.lower())
        port.idle.drive(1)
        port.activity.drive(Activity.IDLE.value)
        while True:
            ready = not self.rests()
            port.instruction.ready.drive(ready)
            await self.edge
            if not (ready and port.instruction.valid.bits) or self.dut.rst.value:
                continue
            index, begin = self.check(unit, port.instruction.payload.value), self.cycle
            port.instruction.ready.drive(0)
            port.idle.drive(0)
            port.activity.drive(Activity.BUSY.value)
            await self.ticks(self.rng.randrange(1, 30))
            if index == self.failing:
                port.fault.drive({"code": isa.Error.RANGE, "tag": self.tags[unit] - 1 & 255})
                port.fault_valid.drive(1)
            else:
                self.ran[index] = begin, self.cycle
                port.done.drive(1)
            port.activity.drive(Activity.DRAIN.value)
            await self.edge
            port.fault_valid.drive(0)
            port.done.drive(0)
            await self.ticks(self.drain - 1)
            port.activity.drive(Activity.IDLE.value)
            port.idle.drive(1)
            self.ended.add(index)

    async def pulse(self, port: Any) -> None:
        port.drive(1)
        await self.edge
        port.drive(0)

    async def go(self, words: bytes, watchdog: int = 400) -> End | None:
        """Run a program, and return its error."""
        ports = self.ports
        self.load(words)
        ports.program_address.drive(CODE)
        ports.program_length.drive(self.count)
        ports.watchdog.drive(watchdog)
        await self.pulse(ports.clear_counters)
        await self.ticks(COUNTERS_PER_UNIT + 3)
        assert not ports.cycles.bits
        await self.pulse(ports.start)
        await self.ticks(2)
        await self.until(
            lambda: ports.status.done.bits or ports.status.error.bits, 40_000, "an end"
        )
        await self.ticks(1)
        assert not ports.request.valid.bits
        requests = len(self.memory.requested)
        if not ports.status.error.bits:
            assert self.ended == self.ran.keys(), "done before all units are idle"
        await self.count_cycles()
        assert len(self.memory.requested) == requests, "requests after the end"
        if not ports.status.error.bits:
            return None
        return (
            isa.Error(ports.status.code.bits),
            Unit(ports.status.unit.bits),
            ports.status.index.bits,
        )

    async def count_cycles(self) -> None:
        """Read the counters: those of a unit add to all cycles, and have those of its work."""
        await self.ticks(3)
        cycles = self.ports.cycles.bits
        for unit in Unit if self.config.counts else ():
            counts = []
            for place in range(COUNTERS_PER_UNIT):
                self.ports.counter_address.drive(unit.value * COUNTERS_PER_UNIT + place)
                await self.ticks(3)
                counts.append(self.ports.counter_value.bits)
            assert sum(counts) == cycles, f"{unit}: {counts}, {cycles}"
            self.counts[unit] = counts
            if unit in EXECUTING and self.failing < 0 and not self.ports.status.error.bits:
                times = [self.ran[index] for index in self.ran if self.unit_of(index) is unit]
                assert counts[Activity.BUSY.value] == sum(end - begin for begin, end in times)

    def unit_of(self, index: int) -> Unit:
        return self.listed.instructions[index].unit

    async def recover(self) -> None:
        """Reset after an error, as the host does, and the units with it."""
        await self.pulse(self.ports.reset)
        await self.until(lambda: self.ports.status.clear.bits, 500, "the end of a soft reset")
        await self.reset()
        await self.ticks(40)
        self.memory.forget()
        self.tags = dict.fromkeys(EXECUTING, 0)
        self.failing = -1

    def check_order(self) -> None:
        """Check that all have run, and all that must end before others start."""
        code = self.listed.instructions
        clocks = Clocks(code, schedule(self.listed, self.config.queue_depth).order)
        assert sorted(self.ran) == [n for n in range(len(code)) if code[n].unit in EXECUTING]
        for first, (_, end) in self.ran.items():
            for second, (begin, _) in self.ran.items():
                if first != second and clocks.before(first, second):
                    assert end <= begin, (code[first], code[second])


@SequencerBench.test(make)
async def random_programs(bench: SequencerBench) -> None:
    """Units get all instructions of the listing, in an order that the semaphores allow."""
    for number in range(bench.options["rounds"]):
        bench.stall = 0.4 * (number % 2)
        bench.drain = bench.rng.choice([1, 1, 60])
        assert await bench.go(legal(bench.config, bench.rng).code) is None
        bench.check_order()


@SequencerBench.test(make)
async def wrong_programs(bench: SequencerBench) -> None:
    """The error of the machine; then the sequencer runs again as if nothing had been."""
    for number in range(max(bench.options["rounds"], len(KINDS))):
        bench.stall = 0.4 * (number % 2)
        words = faulty(bench.config, bench.rng, KINDS[number % len(KINDS)])[1].code
        failure = schedule(listing(words, bench.config), bench.config.queue_depth).failure
        expected = failure and (failure.error, failure.unit, failure.index)
        assert await bench.go(words) == expected
        await bench.recover()
        words = legal(bench.config, bench.rng, 4).code
        listed = listing(words, bench.config)
        executing = [n for n, i in enumerate(listed.instructions) if i.unit in EXECUTING]
        bench.failing = bench.rng.choice(executing)
        unit = listed.instructions[bench.failing].unit
        assert await bench.go(words) == (isa.Error.RANGE, unit, bench.failing)
        await bench.recover()
        assert await bench.go(words) is None
        bench.check_order()


@SequencerBench.test(make)
async def excess_posts(bench: SequencerBench) -> None:
    """A post past the limit names its instruction, whichever of its unit are done by then."""
    full = [Instruction(Opcode.NOP, post=1 << 5)] * MOST_COUNT
    for opcode in (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR):
        one = Instruction(opcode)
        program = [one, one, *full, one, one.but(post=1 << 5), one, one, Instruction(Opcode.HALT)]
        expected = isa.Error.SEMAPHORE, Unit.SEQUENCER, program.index(one.but(post=1 << 5))
        assert await bench.go(encode(program)) == expected, opcode
        await bench.recover()


@SequencerBench.test(make)
async def fetches(bench: SequencerBench) -> None:
    """Little is fetched after HALT; a refused fetch names the first instruction that is missing."""
    nops = encode([Instruction(Opcode.NOP)]) * 150
    assert await bench.go(encode([Instruction(Opcode.HALT)]) + nops) is None
    last = max(address for _, address, _ in bench.memory.requested)
    assert last < CODE + 6 * PROGRAM_BYTES
    bench.memory.memory = bench.content[: CODE + 80 * WORD_BYTES]
    size = bench.config.bus_bytes // WORD_BYTES
    expected = isa.Error.BUS, Unit.SEQUENCER, 80 // size * size
    assert await bench.go(nops) == expected
    await bench.recover()
    bench.stall = 0.95
    bench.memory.memory = bench.content
    assert await bench.go(encode([Instruction(Opcode.HALT)]) + nops) is None


@SequencerBench.test(make)
async def waits(bench: SequencerBench) -> None:
    """Cycles of waits are counted by semaphore; of units that wait for ever the first is named."""
    load, halt = Instruction(Opcode.LOAD), Instruction(Opcode.HALT)
    for one, other in ((3, 9), (11, 0), (0, 11)):
        vector = Instruction(Opcode.VECTOR, wait=1 << one)
        nop = Instruction(Opcode.NOP, wait=1 << other)
        program = [load, load, load.but(post=1 << one), vector]
        program += [load, load, load.but(post=1 << other), nop, halt]
        assert await bench.go(encode(program)) is None
        semaphores = {Unit.VECTOR: [one], Unit.SEQUENCER: [other]}
        for unit in Unit if bench.config.counts else ():
            counts = bench.counts[unit][Activity.SEMAPHORE.value :]
            assert np.flatnonzero(counts).tolist() == semaphores.get(unit, []), (unit, counts)
    opcodes = (Opcode.LOAD, Opcode.STORE, Opcode.MATMUL, Opcode.VECTOR)
    for waiting in ((0, 1, 2, 3), (1, 3), (2, 3), (3,)):
        program = [Instruction(opcodes[n], wait=1 << 11) for n in reversed(waiting)]
        end = isa.Error.WATCHDOG, isa.UNITS[opcodes[waiting[0]]], len(waiting) - 1
        assert await bench.go(encode([*program, halt])) == end
        await bench.recover()
