import pytest
from devices.sdram import Command
from sdram_bench import WINDOW, Burst, Master, build, simulate, traffic

from celosia.hw.sdram.controller import SdramController
from celosia.hw.sdram.timing import PARTS


@pytest.mark.parametrize("data_bytes", [4, 8, 16])
@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_traffic(rng, data_bytes, stall):
    dut, chip = build(data_bytes=data_bytes)
    traffic(rng, dut, chip, 25, stall=stall, stall_w=0.3 * (stall > 0))


@pytest.mark.parametrize(
    ("part", "clock_hz", "cas_latency", "delay"),
    [
        ("IS42S16160G-7", 50_000_000, 2, 0),
        ("GW2AR-18", 54_000_000, 3, 0),
        ("IS42S16160G-7", 100_000_000, 2, 0),
        ("IS42S16160G-7", 133_000_000, 3, 1),
        ("AS4C32M16SB-7", 100_000_000, 2, 2),
        ("AS4C32M16SB-7", 133_000_000, 3, 3),
        ("AS4C32M16SB-6", 166_000_000, 3, 4),
        ("AS4C32M16SB-6", 70_000_000, 3, 1),
    ],
)
def test_parts_clocks_and_delays(rng, part, clock_hz, cas_latency, delay):
    dut, chip = build(
        part, clock_hz=clock_hz, cas_latency=cas_latency, read_delay=delay, data_bytes=4
    )
    reads, writes, _ = traffic(rng, dut, chip, 40, stall=0.2, delay=delay)
    assert len(reads) + len(writes) == 80
    assert chip.longest_refresh_gap < 2 * chip.refresh_cycles
    assert chip.cas_latency == cas_latency


def test_wrong_delay_is_seen(rng):
    dut, chip = build(read_delay=0, data_bytes=4)
    with pytest.raises(AssertionError, match="read of"):
        traffic(rng, dut, chip, 10, delay=1)


def test_refreshes_catch_up_at_the_slowest_clock(rng):
    """Two fall due while long chunks of both directions use the pins; none is forgotten."""
    dut, chip = build(clock_hz=25_000_000, cas_latency=2, data_bytes=16)
    chip.postponed = 2
    traffic(rng, dut, chip, 15, longest=64)
    assert chip.refresh_cycles + 40 < chip.longest_refresh_gap < chip.refresh_cycles + 300


def test_refused_bursts_change_nothing(rng):
    dut, chip = build(data_bytes=8)
    reads, writes, _ = traffic(rng, dut, chip, 40, longest=8, spoil=0.4)
    assert {resp for burst in reads for _, resp in burst.answer} == {0, 2, 3}
    assert {burst.answer for burst in writes} == {0, 2, 3}


def test_longest_burst(rng):
    dut, chip = build(data_bytes=16)
    words = [int.from_bytes(rng.bytes(16), "little") for _ in range(256)]
    writes = [Burst(WINDOW, 256, 1, [(word, 0xFFFF) for word in words])]
    master = Master(dut, reference=bytearray(chip.content))
    # The read waits in the master until the write is answered.
    simulate(dut, chip, [Burst(WINDOW, 256, 0)], writes, master=master)
    assert chip.content == master.reference


def test_reads_pass_a_write_without_data(rng):
    """A master that fetches what it writes must not be blocked by its own write address."""
    dut, chip = build(data_bytes=8)
    chip.content[:256] = rng.bytes(256)
    reads, write = [Burst(0, 16), Burst(128, 16)], Burst(WINDOW, 1, 0, [(1, 255)])
    master = Master(dut, reference=bytearray(chip.content))

    async def give_late(ctx, bursts):
        while reads[-1].answer is None:
            await ctx.tick()
        await Master.give(master, ctx, bursts)

    master.give = give_late
    simulate(dut, chip, reads, [write], master=master)
    assert write.answer == 0
    assert chip.content == master.reference


def test_nothing_moves_while_r_and_b_are_blocked(rng):
    dut, chip = build(data_bytes=16)
    count = 12
    reads = [Burst(256 * n, 16) for n in range(count)]
    writes = [Burst(2 * WINDOW + 16 * n, 1, n % 2, [(n, 0xFFFF)]) for n in range(20)]
    master = Master(dut, reference=bytearray(chip.content))
    held = {}

    async def hold(ctx, take, *arguments, **named):
        await ctx.tick().repeat(3000)
        held[take.__name__] = chip.commands.copy()
        await take(master, ctx, *arguments, **named)

    for name in ("take_reads", "take_answers"):
        take = getattr(Master, name)

        async def later(ctx, *arguments, take=take, **named):
            await hold(ctx, take, *arguments, **named)

        setattr(master, name, later)
    simulate(dut, chip, reads, writes, master=master)
    # What fits between the chip and the channel was fetched, and no more.
    beats = held["take_reads"][Command.READ]
    assert 48 <= beats <= 64
    assert chip.commands[Command.READ] == count * 16
    assert held["take_reads"][Command.REFRESH] >= 8 + 2


REFUSED = [
    ({"data_bytes": 2}, "data_bytes: wanted 4, 8 or 16, got 2"),
    ({"data_bytes": 32}, "data_bytes: wanted 4, 8 or 16, got 32"),
    ({"read_delay": 5}, "read_delay: wanted 0 to 4, got 5"),
    ({"read_delay": -1}, "read_delay: wanted 0 to 4, got -1"),
    ({"address_bits": 24}, "address_bits: wanted at least 25 for IS42S16160G-7, got 24"),
    ({"clock_hz": 133_000_000, "cas_latency": 2}, "clock_hz: wanted 1 to 100000000"),
]


@pytest.mark.parametrize("arguments, message", REFUSED)
def test_refuses(arguments, message):
    arguments = {"clock_hz": 100_000_000} | arguments
    with pytest.raises(ValueError, match=message):
        SdramController(part=PARTS["IS42S16160G-7"], **arguments)
