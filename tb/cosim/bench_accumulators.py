"""Accumulators: the array fills one half while the vector unit uses the other."""

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bfm import Ports

from celosia.hw.matrix.accumulators import ACCUMULATOR_LATENCY
from celosia.sim import quantize

#: Cycles that an operation which adds must stay away from another one on its row.
SPACING = 4


class Bench:
    """Drives all ports each cycle and keeps what memory must hold."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.rng = ports.rng
        self.component = ports.component
        self.depth = ports.config.accumulator_depth
        self.columns = ports.config.columns
        self.sums = np.zeros((2 * self.depth, self.columns), np.int64)
        self.expected: list[tuple[int, int, list[int]]] = []
        self.pending: dict[int, list[int]] = {}
        self.latest: dict[int, int] = {}
        self.last_row = -1
        #: Writes of the last two cycles, whose sums come two cycles later.
        self.writes: deque[dict[str, Any]] = deque([{"enable": 0, "sums": [0] * self.columns}] * 2)
        self.checked = 0

    def _value(self, bits: int) -> int:
        """Return a signed number of at most ``bits`` bits: often one of the ends."""
        greatest = (1 << bits - 1) - 1
        return self.rng.choice(
            [greatest, -greatest - 1, self.rng.randint(-greatest - 1, greatest), 0]
        )

    def operate(self, half: int) -> dict[str, int]:
        """Draw an operation of the matrix unit that may come now, or none."""
        ports, now = self.ports, self.ports.cycle
        if ports.rests(0.3):
            return {"enable": 0, "row": self.rng.randrange(2 * self.depth), "accumulate": 0}
        row = half * self.depth + self.rng.randrange(min(6, self.depth))
        if self.rng.random() < 0.4 and self.last_row // self.depth == half:
            row = self.last_row
        follows = row == self.last_row
        far = now - self.latest.get(row, -SPACING) >= SPACING
        accumulate = int((follows or far) and self.rng.random() < 0.7)
        values = [self._value(self.component.sum_bits) for _ in range(self.columns)]
        for column, value in enumerate(values):
            at = now + self.component.SUM_LATENCY + column
            self.pending.setdefault(at, [0] * self.columns)[column] = value
        before = self.sums[row] if accumulate else 0
        self.sums[row] = quantize.wrap32(before + np.array(values))
        self.latest[row] = now
        self.last_row = row
        return {"enable": 1, "row": row, "accumulate": accumulate}

    def step(self, half: int | None, other: int | None) -> None:
        """Drive one cycle: operations in one half, the vector unit in the other, None for none."""
        ports, now = self.ports, self.ports.cycle
        operation = {"enable": 0, "row": 0, "accumulate": 0} if half is None else self.operate(half)
        for name, value in operation.items():
            ports.set(name, value)
        ports.set("sums", self.pending.pop(now, [0] * self.columns))
        read: dict[str, Any] = {"enable": 0, "row": self.rng.randrange(2 * self.depth)}
        write: dict[str, Any] = {"enable": 0, "row": self.rng.randrange(2 * self.depth)}
        write["mask"] = self.rng.getrandbits(self.columns)
        write["sums"] = [self._value(32) for _ in range(self.columns)]
        before = self.writes[-1]
        if before["enable"]:
            chosen = [c for c in range(self.columns) if before["mask"] >> c & 1]
            self.sums[before["row"], chosen] = np.array(before["sums"])[chosen]
        if other is not None and not ports.rests(0.3):
            write["enable"] = 1
            write["row"] = other * self.depth + self.rng.randrange(self.depth)
        if other is not None and not ports.rests(0.3):
            row = other * self.depth + self.rng.randrange(self.depth)
            if not write["enable"] or row != write["row"]:
                read = {"enable": 1, "row": row}
                self.expected.append((now + ACCUMULATOR_LATENCY, row, self.sums[row].tolist()))
        self.writes.append(write)
        ports.set("read", read)
        ports.set("write", {**write, "sums": self.writes.popleft()["sums"]})

    def check(self) -> None:
        """Compare the answer of this cycle, if one is due."""
        if self.expected and self.expected[0][0] == self.ports.cycle - 1:
            _, row, wanted = self.expected.pop(0)
            got = self.ports.get("read_sums")
            assert got == wanted, f"row {row}: wanted {wanted}, got {got}"
            self.checked += 1

    async def cycles(self, count: int, half: int | None, other: int | None) -> None:
        for _ in range(count):
            await self.ports.edge
            self.check()
            self.step(half, other)


@cocotb.test()
async def random_operations(dut: Any) -> None:
    ports = Ports(dut)
    await ports.start()
    bench = Bench(ports)
    for _ in range(ports.options["phases"]):
        half = ports.rng.randrange(2)
        await bench.cycles(ports.rng.randrange(10, 60), half, 1 - half)
        # A row is readable this long after its operation; then the halves may change places.
        # Reads are looked at two cycles later.
        await bench.cycles(bench.component.latency - 2, None, 1 - half)
        await bench.cycles(2, None, None)
        bench.last_row = -1
    await bench.cycles(bench.component.latency, None, None)
    before = bench.checked
    for row in range(2 * bench.depth):
        await ports.edge
        bench.check()
        bench.step(None, None)
        ports.set("read", {"enable": 1, "row": row})
        due = ports.cycle + ACCUMULATOR_LATENCY
        bench.expected.append((due, row, bench.sums[row].tolist()))
    await bench.cycles(ACCUMULATOR_LATENCY + 2, None, None)
    assert not bench.expected and bench.checked == before + 2 * bench.depth
