"""Shares of the pins' bandwidth, two bytes each cycle, refreshes included."""

from dataclasses import replace
from functools import partial

import pytest
from pysim import simulation
from sdram_bench import Burst, build, simulate

from celosia.hw.arch.presets import PRESETS
from celosia.hw.boards.board import Sdram
from celosia.hw.boards.table import BOARDS

ROW = 1 << 12


def sequential(count, size):
    return [size * n for n in range(count)]


def random_blocks(count, size, rng):
    return [int(n) * size for n in rng.integers(0, (1 << 25) // size, count)]


def row_conflicts(count):
    """Each burst in another row of the same bank as the one before."""
    return [ROW * n for n in range(count)]


def read_share(dut, chip, addresses, beats):
    """Return the share between the first beat and the last on the R channel."""
    master = simulate(
        dut, chip, [Burst(address, beats, n % 2) for n, address in enumerate(addresses)]
    )
    cycles = master.data_cycles
    assert len(cycles) == len(addresses) * beats
    return (len(cycles) - 1) * dut.data_bytes / 2 / (cycles[-1] - cycles[0])


#: Bytes of a beat, beats of a burst, least share of sequential reads.
SEQUENTIAL = [(16, 16, 0.97), (16, 1, 0.97), (8, 16, 0.97), (4, 16, 0.97)]


@pytest.mark.parametrize("data_bytes, beats, least", SEQUENTIAL)
def test_sequential_reads(figure, data_bytes, beats, least):
    dut, chip = build(data_bytes=data_bytes)
    count = 4096 // (data_bytes * beats)
    got = read_share(dut, chip, sequential(count, data_bytes * beats), beats)
    figure(f"SDRAM, sequential reads of {beats} beats of {data_bytes} bytes: {got:.1%} of the pins")
    assert got >= least


@pytest.mark.parametrize(
    "part, clock_hz, latency",
    [
        ("IS42S16160G-7", 100_000_000, 2),
        ("IS42S16160G-7", 133_000_000, 3),
        ("AS4C32M16SB-7", 120_000_000, 3),
    ],
)
def test_random_reads(rng, figure, part, clock_hz, latency):
    """Bursts of 16 beats of 16 bytes anywhere: rows open while the burst before is read."""
    dut, chip = build(part, clock_hz=clock_hz, cas_latency=latency)
    got = read_share(dut, chip, random_blocks(14, 256, rng), 16)
    figure(f"SDRAM, {part} at {clock_hz / 1e6:.0f} MHz, random reads of 256 bytes: {got:.1%}")
    assert got >= 0.85


def test_row_conflicts(figure):
    dut, chip = build()
    got = read_share(dut, chip, row_conflicts(12), 16)
    figure(f"SDRAM, reads of 256 bytes, each in another row of one bank: {got:.1%}")
    assert got >= 0.85


def chip_share(dut, chip, reads, writes):
    """Return the share of cycles with data on the pins between first and last."""
    edges = []
    step = chip.step

    def watched(pins):
        before = chip.data_cycles
        word = step(pins)
        if chip.data_cycles != before:
            edges.append(chip.cycle)
        return word

    chip.step = watched
    simulate(dut, chip, reads, writes)
    return chip.data_cycles / (edges[-1] - edges[0] + 1)


def written(addresses):
    return [Burst(address, 16, 0, [(1, 0xFFFF)] * 16) for address in addresses]


def test_sequential_writes(figure):
    dut, chip = build()
    got = chip_share(dut, chip, [], written(sequential(14, 256)))
    figure(f"SDRAM, sequential writes of 16 beats of 16 bytes: {got:.1%} of the pins")
    assert got >= 0.97


def test_reads_and_writes(figure):
    dut, chip = build()
    reads = [Burst(address, 16) for address in sequential(12, 256)]
    got = chip_share(dut, chip, reads, written([(1 << 20) + n for n in sequential(12, 256)]))
    figure(f"SDRAM, reads and writes of 256 bytes at once: {got:.1%} of the pins")
    assert got >= 0.85


@pytest.mark.parametrize("latency, cycles", [(2, 24), (3, 25)])
async def test_latency(latency, cycles):
    """From the address to the first beat: of a closed row, of the open one, of another one."""
    dut, chip = build(clock_hz=100_000_000, cas_latency=latency)
    chip.content[:32] = bytes(range(32))
    times = []
    ctx = await simulation(dut, background=[partial(chip.serve, pins=dut.pins)])
    await ctx.tick().until(dut.started)
    for address in (0, 0, ROW):
        ctx.set(dut.bus.araddr, address)
        ctx.set(dut.bus.arvalid, 1)
        ctx.set(dut.bus.arburst, 1)
        ctx.set(dut.bus.arsize, 4)
        ctx.set(dut.bus.rready, 1)
        await ctx.tick()
        ctx.set(dut.bus.arvalid, 0)
        waited = 0
        while not ctx.get(dut.bus.rvalid):
            await ctx.tick()
            waited += 1
        times.append(waited)
        await ctx.tick()
    assert times == [cycles + 1, cycles, cycles + 3]
    board = replace(
        BOARDS["ulx3s-85f"],
        config=PRESETS["edge"],
        clock_hz=100_000_000,
        sdram=Sdram(part=dut.part.name, cas_latency=latency, read_delay=0),
    )
    # From the cycle in which the address is taken to the one in which the beat is there.
    assert board.memory_latency == times[-1] + 1
