"""The unified buffer against an array of bytes, in sizes that the bench of tb/units has not."""

from typing import Any

import numpy as np
import pysim
import pytest

from celosia.hw.memory.unified_buffer import UnifiedBuffer


def access(dut, rng, *, outside=False):
    """Return a random access: address of lane 0, skips, mask, and the byte address of each lane."""
    rows, size = dut.rows, dut.unified_bytes
    run = int(rng.integers(1, 2 * rows))
    skip = int(rng.integers(0, 3))
    skips = [(lane // run) * skip for lane in range(rows)]
    mask = int(rng.integers(0, 1 << rows))
    address = int(rng.integers(-rows + 1, size))
    lanes = np.array([address + lane + skips[lane] * rows for lane in range(rows)])
    # What lies before byte 0 stays outside, whatever its skip.
    lanes = np.where(address + np.arange(rows) < 0, -1, lanes)
    good = (lanes >= 0) & (lanes < size)
    if not outside:
        mask &= sum(1 << lane for lane in range(rows) if good[lane])
    wrapped = address & ((1 << len(dut.reads[0].request.payload.address)) - 1)
    return {"address": wrapped, "skip": skips, "mask": mask}, lanes


@pytest.mark.parametrize(("rows", "size"), [(4, 48), (16, 1024), (32, 2048)])
async def test_random_accesses(rows, size):
    dut: Any = UnifiedBuffer(rows=rows, unified_bytes=size, readers=1, writers=1)
    rng = np.random.default_rng(rows)
    memory = np.zeros(size, np.uint8)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.reads[0].request.valid, 0)
    expected = []
    faults = []
    for cycle in range(400):
        # A read in the cycle after a write sees it.
        write, lanes = access(dut, rng, outside=rng.random() < 0.1)
        values = rng.integers(0, 256, rows)
        ctx.set(dut.writes[0].valid, cycle % 2)
        ctx.set(dut.writes[0].payload, write | {"data": [int(v) for v in values]})
        read, places = access(dut, rng, outside=rng.random() < 0.1)
        pysim.drive(ctx, dut.reads[0].request, valid=1, payload=read)
        assert ctx.get(dut.reads[0].request.ready) and ctx.get(dut.writes[0].ready)
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
            assert ctx.get(dut.reads[0].valid)
            assert [ctx.get(dut.reads[0].data[i]) for i in range(rows)] == wanted
            assert ctx.get(dut.reads[0].fault) == fault
        if cycle + 1 >= dut.WRITE_LATENCY:
            assert ctx.get(dut.write_fault) == faults[cycle + 1 - dut.WRITE_LATENCY]
    assert any(fault for _, fault in expected) and any(faults)
