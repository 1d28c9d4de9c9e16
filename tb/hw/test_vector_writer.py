"""Writers of results, and the read port that they share."""

import pysim
import pytest
from vector_sizes import VISIBLE, vector_sizes

from celosia.hw.arch.isa import Mode, Space
from celosia.hw.vector.pipe import Pipe
from celosia.hw.vector.source import RowReads
from celosia.hw.vector.writer import UnifiedWriter, Writers


@pytest.mark.parametrize("to_sums", [False, True])
async def test_a_result_leaves_with_its_descriptor(to_sums):
    shape = vector_sizes("micro")
    dut = Writers(sizes=shape, visible_cycles=VISIBLE)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.endings, [{"mode": Mode.ADD}] * 2)
    ctx.set(dut.unified_write.ready, 1)
    ctx.set(dut.oldest, 1)
    # Two results of one task; the second is the last. Addresses, and lanes that are channels.
    places = [
        {"address": 5, "mask": 3, "group": 1},
        {"address": 9, "mask": 1, "group": 0, "last": 1},
    ]
    await pysim.put_all(ctx, dut.descriptors, places)
    await ctx.tick()
    ctx.set(dut.sums, [100] * shape.columns)
    tag = {"valid": 1, "tag": {"slot": 1, "to_accumulators": to_sums}}
    values = [[3, -4], [7, 8]]
    reads, rows, sums, stores, used, ended, settling = [], [], {}, [], [], {}, []
    for cycle in range(30):
        ctx.set(dut.soon, tag if cycle < 2 else {})
        at = cycle - Pipe.SOON
        ctx.set(dut.scaled, values[at] if at in (0, 1) else [0, 0])
        ctx.set(dut.result, tag if at in (2, 3) else {})
        ctx.set(dut.bytes, values[at - 2] if at in (2, 3) else [0, 0])
        read, row = ctx.get(dut.accumulator_read), ctx.get(dut.accumulator_write)
        used += [cycle] * ctx.get(dut.used)
        settling += [cycle] * ctx.get(dut.settling)
        reads += [(cycle, read.row)] * read.enable
        rows += [(cycle, row.row, row.mask)] * row.enable
        sums[cycle] = list(row.sums)[:2]
        if ctx.get(dut.unified_write.valid):
            write = ctx.get(dut.unified_write.payload)
            stores.append((write.address, write.mask, list(write.data)[:2]))
        for name in ("bytes_finished", "sums_finished", "bytes_fault", "sums_fault"):
            if ctx.get(getattr(dut, name)):
                ended[name] = cycle
        await ctx.tick()
    if to_sums:
        assert used == [0, 1] and reads == [(0, 5), (1, 9)] and not stores and not settling
        first = Pipe.SOON - 1
        assert rows == [(first, 5, 0b1100), (first + 1, 9, 0b01)]
        # Sums come two cycles after the rest.
        assert [sums[first + 2], sums[first + 3]] == [[103, 96], [107, 108]]
        assert ended == {"sums_finished": first + 3}
    else:
        assert not reads and not rows
        assert stores == [(5, 3, [3, 252]), (9, 1, [7, 8])]
        assert ended == {"bytes_finished": used[1] + VISIBLE} and used[1] == used[0] + 1
        # Until the last write is visible.
        assert settling == list(range(used[0] + 1, used[1] + VISIBLE + 1))


@pytest.mark.parametrize("fault", [0, 1])
async def test_a_result_waits_for_the_task_before(fault):
    """The buffer may still report a fault of that."""
    dut = UnifiedWriter(sizes=vector_sizes("micro"), visible_cycles=VISIBLE)
    ctx = await pysim.simulation(dut)
    ctx.set(dut.unified_write.ready, 1)
    pysim.drive(ctx, dut, descriptor={"address": 5, "mask": 1, "last": 1}, slot=1)
    ctx.set(dut.result, {"valid": 1, "tag": {"slot": 0, "fault": fault}})
    await ctx.tick()
    ctx.set(dut.result, {})
    for _ in range(5):
        assert not (ctx.get(dut.unified_write.valid) or ctx.get(dut.pop) or ctx.get(dut.fault))
        await ctx.tick()
    ctx.set(dut.slot, 0)
    assert (ctx.get(dut.unified_write.valid), ctx.get(dut.fault)) == (1 - fault, fault)


async def test_rows_are_read_by_the_reader_of_the_task():
    dut = RowReads(sizes=vector_sizes("micro"))
    ctx = await pysim.simulation(dut)
    pysim.drive(ctx, dut, source={"row": 3}, adder={"enable": 1, "row": 9})
    rows, bytes_ = Space.ACCUMULATORS, Space.UNIFIED
    # Source, destination, and row read from the next cycle on; bytes to bytes reads none.
    for source, destination, row in (
        (bytes_, rows, 9),
        (bytes_, bytes_, 9),
        (rows, bytes_, 3),
        (bytes_, bytes_, 3),
        (bytes_, rows, 9),
        (rows, rows, 3),
    ):
        ctx.set(dut.launch.task, {"source": source, "destination": destination})
        await pysim.pulse(ctx, dut.launch.valid)
        ctx.set(dut.launch.task, {"source": destination, "destination": source})
        await ctx.tick()
        read = ctx.get(dut.read)
        assert (read.enable, read.row) == (1, row)
    ctx.set(dut.adder.enable, 0)
    assert not ctx.get(dut.read.enable)
    ctx.set(dut.source.enable, 1)
    assert ctx.get(dut.read.enable)


def test_visible_cycles_are_checked():
    with pytest.raises(ValueError, match="visible_cycles: wanted at least 1, got 0"):
        UnifiedWriter(sizes=vector_sizes("micro"), visible_cycles=0)
