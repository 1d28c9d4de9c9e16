"""The unified buffer against an array of bytes."""

import numpy as np
import pytest

from celosia.hw.memory.unified_buffer import UnifiedBuffer
from celosia.sim import pysim


def access(dut, rng, *, outside=False):
    """Return a random access: address of lane 0, skips, mask, and the byte address of each lane."""
    rows, size = dut.rows, dut.unified_bytes
    run = int(rng.integers(1, 2 * rows))
    skip = int(rng.integers(0, 3))
    skips = [(lane // run) * skip for lane in range(rows)]
    mask = int(rng.integers(0, 1 << rows))
    address = int(rng.integers(-rows + 1, size))
    lanes = np.array([address + lane + skips[lane] * rows for lane in range(rows)])
    # What lies in front of byte 0 stays outside, whatever its skip.
    lanes = np.where(address + np.arange(rows) < 0, -1, lanes)
    good = (lanes >= 0) & (lanes < size)
    if not outside:
        mask &= sum(1 << lane for lane in range(rows) if good[lane])
    wrapped = address & ((1 << len(dut.read_0.payload.address)) - 1)
    return {"address": wrapped, "skip": skips, "mask": mask}, lanes


@pytest.mark.parametrize(("rows", "size"), [(4, 64), (8, 256), (16, 1024), (4, 48)])
def test_random_accesses(rows, size):
    dut = UnifiedBuffer(rows=rows, unified_bytes=size, readers=1, writers=1)
    rng = np.random.default_rng(rows)
    memory = np.zeros(size, np.uint8)

    async def bench(ctx):
        ctx.set(dut.read_0.valid, 0)
        expected = []
        faults = []
        for cycle in range(400):
            # A read in the cycle after a write sees it.
            write, lanes = access(dut, rng, outside=rng.random() < 0.1)
            values = rng.integers(0, 256, rows)
            ctx.set(dut.write_0.valid, cycle % 2)
            ctx.set(dut.write_0.payload, write | {"data": [int(v) for v in values]})
            read, places = access(dut, rng, outside=rng.random() < 0.1)
            ctx.set(dut.read_0.valid, 1)
            ctx.set(dut.read_0.payload, read)
            assert ctx.get(dut.read_0.ready) and ctx.get(dut.write_0.ready)
            on = [bool(read["mask"] >> lane & 1) for lane in range(rows)]
            inside = (places >= 0) & (places < size)
            expected.append(
                (
                    [
                        int(memory[a]) if o and i else 0
                        for a, o, i in zip(places, on, inside, strict=True)
                    ],
                    any(o and not i for o, i in zip(on, inside, strict=True)),
                )
            )
            written = (lanes >= 0) & (lanes < size)
            written_on = np.array([bool(write["mask"] >> lane & 1) for lane in range(rows)])
            if cycle % 2:
                memory[lanes[written & written_on]] = values[written & written_on]
            faults.append(bool(cycle % 2 and (written_on & ~written).any()))
            await ctx.tick()
            if cycle + 1 >= dut.READ_LATENCY:
                wanted, fault = expected[cycle + 1 - dut.READ_LATENCY]
                assert ctx.get(dut.read_valid) == 1
                assert [ctx.get(dut.read_data[i]) for i in range(rows)] == wanted
                assert ctx.get(dut.read_fault) == fault
            if cycle + 1 >= dut.WRITE_LATENCY:
                assert ctx.get(dut.write_fault) == faults[cycle + 1 - dut.WRITE_LATENCY]
        assert any(fault for _, fault in expected) and any(faults)

    pysim.run(dut, bench)


def test_priority_and_whose_answer():
    dut = UnifiedBuffer(rows=4, unified_bytes=64, readers=3, writers=2)

    async def bench(ctx):
        for n in range(3):
            ctx.set(getattr(dut, f"read_{n}").valid, 1)
        for n in range(2):
            ctx.set(getattr(dut, f"write_{n}").valid, 1)
        order = []
        for n in range(3):
            ready = [ctx.get(getattr(dut, f"read_{k}").ready) for k in range(3)]
            assert ready == [k <= n for k in range(3)]
            assert [ctx.get(getattr(dut, f"write_{k}").ready) for k in range(2)] == [1, int(n > 0)]
            await ctx.tick()
            ctx.set(getattr(dut, f"read_{n}").valid, 0)
            ctx.set(dut.write_0.valid, 0)
        for _ in range(dut.READ_LATENCY - 2):
            order.append(ctx.get(dut.read_valid))
            await ctx.tick()
        for _ in range(3):
            order.append(ctx.get(dut.read_valid))
            await ctx.tick()
        assert [o for o in order if o] == [1, 2, 4]

    pysim.run(dut, bench)
