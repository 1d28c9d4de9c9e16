import pytest
from sdram_bench import build, traffic

CORNERS = [
    ("IS42S16160G-7", 100_000_000, 2, 0),
    ("IS42S16160G-7", 133_000_000, 3, 1),
    ("AS4C32M16SB-7", 100_000_000, 2, 2),
    ("AS4C32M16SB-7", 133_000_000, 3, 3),
    ("AS4C32M16SB-6", 166_000_000, 3, 4),
    ("AS4C32M16SB-6", 70_000_000, 3, 1),
]


@pytest.mark.parametrize("part, clock_hz, cas_latency, delay", CORNERS)
def test_parts_clocks_and_delays(rng, part, clock_hz, cas_latency, delay):
    dut, chip = build(
        part, clock_hz=clock_hz, cas_latency=cas_latency, read_delay=delay, data_bytes=4
    )
    traffic(rng, dut, chip, 30, stall=0.2, delay=delay)
    assert chip.cas_latency == cas_latency


def test_wrong_delay_is_seen(rng):
    dut, chip = build(read_delay=0, data_bytes=4)
    with pytest.raises(AssertionError, match="read of"):
        traffic(rng, dut, chip, 10, delay=1)
