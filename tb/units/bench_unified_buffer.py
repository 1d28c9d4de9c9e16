"""The unified buffer: several readers and writers at once."""

from collections import deque
from typing import Any

import cocotb
import numpy as np
from cosim.bench import Bench
from cosim.golden import block, generator_of, machine_of, run, same
from cosim.streams import put

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim.check import footprint


def make(config: Config) -> Any:
    return block(config, "unified_buffer")


def accesses(i: Instruction, config: Config) -> list[dict[str, Any]]:
    """Return the reads of a MATMUL, ``rows`` lanes each."""
    result = []
    origins = footprint.taps(i.but(taps=1), config).addresses().ravel()
    for origin in origins.tolist():
        for first in range(0, i.taps, config.rows):
            lanes = range(first, first + config.rows)
            skip = [min(k, i.taps - 1) // i.run * i.skip for k in lanes]
            mask = sum(1 << k - first for k in lanes if k < i.taps)
            result.append({"address": origin + first, "skip": skip, "mask": mask})
    return result


class BufferBench(Bench):
    """The buffer, a machine with the same bytes, and the responses that each reader waits for."""

    async def begin(self) -> None:
        await self.start()
        self.machine, self.generator = machine_of(self), generator_of(self)
        self.expected: list[deque[Any]] = [deque() for _ in range(self.unit.readers)]
        cocotb.start_soon(self.responses())
        size, rows = self.config.unified_bytes, self.config.rows
        for address in range(0, size, rows):
            await self.write(0, address, self.machine.unified[address : address + rows])

    async def write(self, port: int, address: int, content: np.ndarray) -> None:
        """Write up to ``rows`` bytes from an address on."""
        rows = self.config.rows
        data = [self.rng.randrange(256) for _ in range(rows)]
        data[: content.size] = content.view(np.uint8).tolist()
        access = {"address": address, "skip": [0] * rows, "mask": (1 << content.size) - 1}
        await put(self, self.ports.writes[port], {**access, "data": data})

    async def responses(self) -> None:
        """Compare each response with the one that its reader waits for, for ever."""
        while True:
            await self.edge
            for reader, expected in enumerate(self.expected):
                port = self.ports.reads[reader]
                due = bool(expected) and expected[0][0] == self.cycle
                assert port.valid.bits == due, f"reader {reader}: a response, or none"
                if due:
                    _, content, outside = expected.popleft()
                    assert port.fault.bits == outside
                    if not outside:
                        same(list(port.data.value), content, f"reader {reader}")

    async def read(self, reader: int) -> None:
        """Read as random instructions do, each from the whole buffer or, rarely, beyond it."""
        i = self.generator.matmul()
        taken = footprint.taps(i, self.config).gather(self.machine.unified)
        values = taken.reshape(-1, i.taps).view(np.uint8)
        port, rows, n = self.ports.reads[reader].request, self.config.rows, 0
        for access in accesses(i, self.config):
            steps = -(-i.taps // rows)
            pixel, step = divmod(n, steps)
            content = np.zeros(rows, np.uint8)
            part = values[pixel, step * rows : (step + 1) * rows]
            content[: part.size] = part
            n += 1
            outside = self.rng.random() < 0.05
            if outside:
                access = access | {"address": self.config.unified_bytes - 1, "mask": 3}
            await put(self, port, access)
            # `put` returns at the edge at which the request was taken.
            due = self.cycle + UnifiedBuffer.READ_LATENCY
            self.expected[reader].append((due, content, outside))

    async def load(self, port: int, instruction: Instruction) -> None:
        """Write a LOAD of the machine, row by row."""
        rows = self.config.rows
        addresses = footprint.unified_block(instruction).addresses()
        for row in addresses:
            for first in range(0, row.size, rows):
                part = row[first : first + rows]
                await self.write(port, int(part[0]), self.machine.unified[part])


@BufferBench.test(make)
async def readers_and_writers(bench: BufferBench) -> None:
    """Readers get the bytes of the machine in their cycles; then both halves are written anew."""
    size = bench.config.unified_bytes
    for number in range(3 * bench.options["rounds"]):
        bench.stall = 0.5 * (number % 2)
        await bench.ticks(UnifiedBuffer.VISIBLE - 1)
        reading = [cocotb.start_soon(bench.read(n)) for n in range(bench.unit.readers)]
        for task in reading:
            await task
        await bench.ticks(UnifiedBuffer.READ_LATENCY + 1)
        assert not any(bench.expected)
        loads = []
        for writer in range(bench.unit.writers):
            length = bench.rng.randint(1, size // 4)
            first = writer * size // 2 + bench.rng.randrange(size // 4)
            external = bench.rng.randrange(1 << 11)
            fields = {"external": external, "unified": first, "length": length}
            loads.append(Instruction(Opcode.LOAD, **fields))
        assert run(bench.machine, *loads) is None
        writing = [cocotb.start_soon(bench.load(n, load)) for n, load in enumerate(loads)]
        for task in writing:
            await task


@BufferBench.test(make)
async def faults(bench: BufferBench) -> None:
    """A write beyond the end is reported in its cycle, and changes nothing there is."""
    rows, size = bench.config.rows, bench.config.unified_bytes
    for port in range(bench.unit.writers):
        content = np.zeros(rows, np.int8)
        await bench.write(port, size - 1, content)
        bench.machine.unified[size - 1] = 0
        await bench.ticks(UnifiedBuffer.WRITE_LATENCY)
        assert bench.ports.write_fault.bits == 1 << port
        await bench.ticks(1)
        assert not bench.ports.write_fault.bits
    for _ in range(6):
        await bench.read(0)
    await bench.ticks(UnifiedBuffer.READ_LATENCY + 1)
