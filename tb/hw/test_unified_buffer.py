"""The unified buffer against an array of bytes."""

from typing import Any

import numpy as np
import pysim
import pytest

from celosia.hw.memory.unified_buffer import Arbiter, BankMapper, UnifiedBuffer


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


@pytest.mark.parametrize(("rows", "size"), [(4, 64), (8, 256), (16, 1024), (4, 48), (32, 2048)])
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
        ctx.set(dut.reads[0].request.valid, 1)
        ctx.set(dut.reads[0].request.payload, read)
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


async def test_priority_and_whose_response():
    dut: Any = UnifiedBuffer(rows=4, unified_bytes=64, readers=3, writers=2)
    ctx = await pysim.simulation(dut)
    for n in range(3):
        ctx.set(dut.reads[n].request.valid, 1)
    for n in range(2):
        ctx.set(dut.writes[n].valid, 1)
    order = []
    for n in range(3):
        ready = [ctx.get(dut.reads[k].request.ready) for k in range(3)]
        assert ready == [k <= n for k in range(3)]
        assert [ctx.get(dut.writes[k].ready) for k in range(2)] == [1, int(n > 0)]
        await ctx.tick()
        ctx.set(dut.reads[n].request.valid, 0)
        ctx.set(dut.writes[0].valid, 0)
    for _ in range(dut.READ_LATENCY - 2):
        order.append(sum(ctx.get(port.valid) << n for n, port in enumerate(dut.reads)))
        await ctx.tick()
    for _ in range(3):
        order.append(sum(ctx.get(port.valid) << n for n, port in enumerate(dut.reads)))
        await ctx.tick()
    assert [o for o in order if o] == [1, 2, 4]


def test_construction():
    dut: Any = UnifiedBuffer(rows=8, unified_bytes=256, readers=3, writers=2)
    assert (dut.rows, dut.unified_bytes, dut.readers, dut.writers) == (8, 256, 3, 2)
    assert (dut.READ_LATENCY, dut.WRITE_LATENCY, dut.VISIBLE) == (6, 3, 1)
    assert (len(dut.reads), len(dut.write_fault)) == (3, 2)
    assert BankMapper(rows=8, unified_bytes=256, carried_bits=2).depth == 32
    assert Arbiter(shape=dut.reads[0].request.payload.shape(), count=3).count == 3


@pytest.mark.parametrize("size", [32, 48])
def test_every_address_with_every_skip(size):
    """Lane 0 from before the buffer to past its end, skips up to what saturates."""
    rows = 4
    dut: Any = UnifiedBuffer(rows=rows, unified_bytes=size, readers=1, writers=1)
    bits = len(dut.reads[0].request.payload.address)
    most = (1 << len(dut.reads[0].request.payload.skip[0])) - 1
    contents = np.arange(size) * 5 + 1 & 255
    # One address in front for each lane that may be masked; the rest is past the end.
    places = range(-rows + 1, (1 << bits) - rows + 1)
    requests = [(address, skip) for address in places for skip in range(most + 1)]
    wanted = []
    for address, skip in requests:
        lanes = np.array([address + lane + skip * rows * (lane > 1) for lane in range(rows)])
        lanes[address + np.arange(rows) < 0] = -1
        inside = (lanes >= 0) & (lanes < size)
        wanted.append(
            (
                [int(contents[a]) if i else 0 for a, i in zip(lanes, inside, strict=True)],
                not inside.all(),
            )
        )

    async def bench(ctx):
        for base in range(0, size, rows):
            payload = {"address": base, "mask": 15, "skip": [0] * rows}
            payload["data"] = contents[base : base + rows].tolist()
            await pysim.put(ctx, dut.writes[0], payload)
        ctx.set(dut.reads[0].request.valid, 1)
        for cycle in range(len(requests) + dut.READ_LATENCY):
            if cycle < len(requests):
                address, skip = requests[cycle]
                skips = [0, 0, skip, skip]
                wrapped = address & ((1 << bits) - 1)
                ctx.set(
                    dut.reads[0].request.payload, {"address": wrapped, "skip": skips, "mask": 15}
                )
            if cycle >= dut.READ_LATENCY:
                response, fault = wanted[cycle - dut.READ_LATENCY]
                got = [ctx.get(dut.reads[0].data[i]) for i in range(rows)]
                assert (got, ctx.get(dut.reads[0].fault)) == (response, fault), requests[
                    cycle - dut.READ_LATENCY
                ]
            await ctx.tick()

    pysim.run(dut, bench)


@pytest.mark.parametrize("load", [0.3, 0.8])
async def test_contention_of_all_ports(load):
    """Responses and faults go to their reader; priority decides; nothing is lost or done twice."""
    rows, size = 4, 64
    dut: Any = UnifiedBuffer(rows=rows, unified_bytes=size, readers=3, writers=2)
    rng = np.random.default_rng(int(load * 10))
    memory = np.zeros(size, np.int64)
    responses, faults = {}, {}
    seen = [0] * 5
    ctx = await pysim.simulation(dut)
    waiting = {}
    ports = {("read", n): dut.reads[n].request for n in range(3)}
    ports |= {("write", n): dut.writes[n] for n in range(2)}
    for cycle in range(500):
        for port in ports:
            if port not in waiting and rng.random() < load:
                request, lanes = access(dut, rng, outside=rng.random() < 0.2)
                if port[0] == "write":
                    request["data"] = [int(v) for v in rng.integers(0, 256, rows)]
                waiting[port] = request, lanes
                ctx.set(ports[port].payload, request)
            ctx.set(ports[port].valid, port in waiting)
        for kind, count in (("read", 3), ("write", 2)):
            requesting = [n for n in range(count) if (kind, n) in waiting]
            for n in requesting:
                assert ctx.get(ports[kind, n].ready) == (n == requesting[0])
            if not requesting:
                continue
            request, lanes = waiting.pop((kind, requesting[0]))
            on = np.array([bool(request["mask"] >> lane & 1) for lane in range(rows)])
            inside = (lanes >= 0) & (lanes < size)
            outside = bool((on & ~inside).any())
            seen[requesting[0] + 3 * (kind == "write")] += 1
            if kind == "read":
                due = cycle + dut.READ_LATENCY
                got = np.where(on & inside, memory[np.clip(lanes, 0, size - 1)], 0)
                responses[due] = requesting[0], got.tolist(), outside
            else:
                faults[cycle + dut.WRITE_LATENCY] = outside << requesting[0]
                memory[lanes[on & inside]] = np.array(request["data"])[on & inside]
        whose, bytes_read, fault = responses.get(cycle, (None, None, False))
        for n, port in enumerate(dut.reads):
            assert ctx.get(port.valid) == (n == whose)
            assert ctx.get(port.fault) == (n == whose and fault)
            if n == whose:
                assert [ctx.get(port.data[i]) for i in range(rows)] == bytes_read
        assert ctx.get(dut.write_fault) == faults.get(cycle, 0)
        await ctx.tick()
    assert min(seen) > 2 and any(faults.values()) and any(f for _, _, f in responses.values())
