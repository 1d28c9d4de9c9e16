"""Words of wrong parity: bits that change in a unit's memories, or that memories around it report.

Only on Icarus: Verilator has no access to what is inside.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from celosia.hw.arch.isa import Error, Instruction
from celosia.sim.check import footprint
from celosia.sim.check.footprint import Memory
from cosim.bench import Bench

#: Ends of the paths of memories inside a unit; the numbers are those of a bank.
_PATHS = {
    Memory.WEIGHTS: r"buffer\.bank_(\d+)_(\d+)$",
    Memory.ACCUMULATORS: r"accumulators\.column_(\d+)\.half_(\d+)$",
    Memory.PARAMETERS: r"store\.memory\.lane_(\d+)$",
    Memory.TABLES: r"store\.tables\.lane_(\d+)$",
}


def _arrays(handle: Any) -> Iterator[Any]:
    """Yield the arrays of a module and of those in it."""
    for child in handle:
        kind = type(child).__name__
        if kind == "HierarchyObject":
            yield from _arrays(child)
        elif kind == "ArrayObject":
            yield child


class Flips:
    """Changes of one bit of a memory: ``around`` are those that are simulated in Python.

    Each of them takes the address of a byte, or of a sum, that is wrong, or None.
    """

    def __init__(self, bench: Bench, around: dict[Memory, Callable[[int | None], None]]) -> None:
        self.bench, self.around = bench, around
        self.banks: dict[tuple[Memory, tuple[int, ...]], Any] = {}
        for array in _arrays(bench.dut):
            for memory, path in _PATHS.items():
                if match := re.search(path, array._path):
                    self.banks[memory, tuple(map(int, match.groups()))] = array
        self.memories = sorted({memory for memory, _ in self.banks} | around.keys(), key=str)

    def draw(self, program: list[Instruction]) -> tuple[Memory, int]:
        """Return a memory and an address, more often than not one that a program reads."""
        rng, config = self.bench.rng, self.bench.config
        touches = [t for i in program for t in footprint.touches(i, config) if not t.write]
        touches = [touch for touch in touches if touch.memory in self.memories]
        if touches and rng.random() < 0.7:
            touch = rng.choice(touches)
            return touch.memory, int(rng.choice(touch.pattern.addresses().ravel()))
        memory = rng.choice(self.memories)
        return memory, rng.randrange(footprint.extent(memory, config))

    def user(self, program: list[Instruction], memory: Memory, address: int) -> int | None:
        """Return the first instruction that reads an address before it is written, or None."""
        for index, instruction in enumerate(program):
            touches = footprint.touches(instruction, self.bench.config, memory)
            there = [t.write for t in touches if t.pattern.bitmap(address, address)[0]]
            if there:
                return None if all(there) else index
        return None

    def turn(self, memory: Memory, address: int) -> None:
        """Change a bit of a word; of a tile in one of its words, of a table in all of one lane."""
        if memory in self.around:
            self.around[memory](address)
            return
        bench, config = self.bench, self.bench.config
        match memory:
            case Memory.WEIGHTS:
                rows = config.rows // config.weight_rows
                words = [address * rows + bench.rng.randrange(rows)]
                bank = bench.rng.randrange(config.weight_rows), bench.rng.randrange(config.columns)
            case Memory.ACCUMULATORS:
                row, column = divmod(address, config.columns)
                half, word = divmod(row, config.accumulator_depth)
                words, bank = [word], (column, half)
            case Memory.PARAMETERS:
                words, bank = [address // config.lanes], (address % config.lanes,)
            case _:
                words, bank = list(range(256 * address, 256 * address + 256)), (0,)
        array = self.banks[memory, bank]
        bit = bench.rng.randrange(len(array[0]))
        for word in words:
            array[word].value = int(array[word].value.resolve("zeros")) ^ 1 << bit

    def heal(self) -> None:
        """End what the memories around report; those inside are written by the bench."""
        for report in self.around.values():
            report(None)


async def check_flips(
    bench: Any, flips: Flips, count: int, renew: Callable[[], Awaitable[None]]
) -> None:
    """Run programs with flips: MEMORY of the instruction that uses the word, and nothing else.

    ``bench`` has ``draw``, ``runs`` and ``execute``, which runs a program and compares memories,
    but for the sum that is ``wrong``; ``renew`` writes the memories of the unit anew.
    """
    used: set[bool] = set()
    for number in range(count):
        bench.stall = 0.4 * (number % 2)
        program = [bench.draw() for _ in range(bench.rng.randint(1, 3))]
        memory, address = flips.draw(program)
        index = flips.user(program, memory, address)
        named = any(
            touch.pattern.bitmap(address, address)[0]
            for instruction in program
            for touch in footprint.touches(instruction, bench.config, memory)
        )
        if index is None and named and memory in flips.around:
            continue
        used.add(index is not None)
        flips.turn(memory, address)
        if index is not None:
            assert await bench.runs.failure(program) == (Error.MEMORY, index), (memory, address)
            await bench.reset()
            bench.runs.forget()
        elif memory is Memory.ACCUMULATORS and memory not in flips.around and not named:
            await bench.execute(program, wrong=address)
        else:
            await bench.execute(program)
        flips.heal()
        await renew()
    assert used == {False, True}
