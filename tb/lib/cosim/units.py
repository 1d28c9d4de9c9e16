"""Units that execute instructions: how benches issue them and record what they report."""

from typing import Any

import cocotb

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.isa import Instruction
from celosia.hw.arch.registers import Activity
from cosim.bench import Bench
from cosim.streams import put


class Unit:
    """Unit of a core in simulation: issues instructions, and records ``done`` and faults.

    ``done``, ``activity``: the cycles with ``done``, and the activity of every cycle; ``taken``:
    cycles in which an instruction was taken; ``faults``: error and tag of each fault; ``drains``:
    the unit may be idle while results that nobody waits for drain, after a fault or an abort.
    """

    def __init__(self, bench: Bench, *, drains: bool = False) -> None:
        self.bench = bench
        self.drains = drains
        self.done: list[int] = []
        self.activity: list[int] = []
        self.taken: list[int] = []
        self.faults: list[tuple[isa.Error, int]] = []
        self._fields: dict[int | str, Any] = {}
        self._tag = 0

    async def watch(self) -> None:
        """Record, for ever."""
        bench, ports = self.bench, self.bench.ports
        while True:
            await bench.edge
            self.activity.append(ports.activity.bits)
            assert self.activity[-1] <= Activity.DRAIN.value
            is_idle = ports.activity.bits == Activity.IDLE.value
            assert is_idle == bool(ports.idle.bits) or (self.drains and not is_idle)
            if ports.done.bits:
                self.done.append(bench.cycle)
            if ports.fault_valid.bits:
                fault = ports.fault.value
                self.faults.append((isa.Error(fault.code), int(fault.tag)))

    async def issue(self, instruction: Instruction) -> None:
        """Put an instruction; as in a core, other fields keep the values of instructions before."""
        self._fields |= {"opcode": instruction.opcode, **instruction.fields}
        bits = isa.UNIT_LAYOUTS[instruction.unit].const(self._fields).as_bits()
        tag = self._tag % (1 << streams.TAG_BITS)
        await put(self.bench, self.bench.ports.instruction, bits << streams.TAG_BITS | tag)
        self.taken.append(self.bench.cycle)
        self._tag += 1

    async def run(self, instructions: list[Instruction], limit: int = 20_000) -> None:
        """Issue instructions, and wait until all are done and the unit is idle."""
        done = len(self.done) + len(instructions)
        for instruction in instructions:
            await self.issue(instruction)
        ends = "the end of the instructions"
        await self.bench.until(lambda: self.faults or len(self.done) == done, limit, ends)
        await self.bench.until(lambda: self.bench.ports.idle.bits, limit, "idle")
        assert not self.faults, self.faults

    async def failure(self, instructions: list[Instruction]) -> tuple[isa.Error, int]:
        """Return the error of instructions that end in one, and the index of the failing one.

        The unit is idle then, and nothing that comes after it is done; what is done before it has
        its effects. Reset the unit afterwards.
        """
        first, done = self._tag, len(self.done)

        async def issue() -> None:
            for instruction in instructions:
                await self.issue(instruction)

        issuing = cocotb.start_soon(issue())
        await self.bench.until(lambda: self.faults, 5_000, "a fault")
        await self.bench.until(lambda: self.bench.ports.idle.bits, 5_000, "idle")
        await self.bench.ticks(20)
        issuing.cancel()
        self.bench.ports.instruction.valid.drive(0)
        ((error, tag),) = self.faults
        index = (tag - first) % (1 << streams.TAG_BITS)
        assert len(self.done) - done <= index
        self.faults.clear()
        self.taken.clear()
        return error, index

    def forget(self) -> None:
        """Start anew after a reset."""
        self._tag = 0
        self.taken.clear()
        self.done.clear()
