from dataclasses import replace

import pytest

from celosia.hw.sdram.timing import PARTS, REFRESH_LATENESS, Timing

ISSI, SLOW = PARTS["IS42S16160G-7"], PARTS["AS4C32M16SB-7"]


@pytest.mark.parametrize(
    "part, clock_hz, latency, want",
    [
        (ISSI, 100_000_000, 2, dict(rcd=2, rp=2, ras=4, rc=6, rrd=2, rfc=6, wr=2, mrd=2)),
        (ISSI, 120_000_000, 3, dict(rcd=2, rp=2, ras=5, rc=8, rrd=2, rfc=8, wr=2, mrd=2)),
        (ISSI, 133_333_333, 3, dict(rcd=2, rp=2, ras=5, rc=8, rrd=2, rfc=8, wr=2, mrd=2)),
        # 15 ns are two whole periods and a little of a third.
        (ISSI, 133_333_334, 3, dict(rcd=3, rp=3, ras=5, rc=9, rrd=2, rfc=9, wr=2, mrd=2)),
        (SLOW, 100_000_000, 3, dict(rcd=3, rp=3, ras=5, rc=7, rrd=2, rfc=7, wr=2, mrd=2)),
    ],
)
def test_cycles(part, clock_hz, latency, want):
    timing = Timing.derive(part, clock_hz=clock_hz, cas_latency=latency)
    assert {name: getattr(timing, name) for name in want} == want
    assert timing.cas_latency == latency


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("clock_hz", [25_000_000, 70_000_000, 99_999_999, 120_000_000, 133_333_333])
def test_never_too_short(part, clock_hz):
    timing = Timing.derive(part, clock_hz=clock_hz, cas_latency=3)
    for name in ("rcd", "rp", "ras", "rc", "rrd", "rfc", "wr", "mrd", "startup"):
        least = getattr(part, f"{name}_ns")
        cycles = getattr(timing, name)
        assert cycles * 10**9 >= least * clock_hz
        assert (cycles - 1) * 10**9 < least * clock_hz or cycles == 2
    # All rows within 64 ms, though the last one comes late.
    window = timing.refresh_interval * part.refresh_count + REFRESH_LATENESS
    assert window * 10**9 <= part.refresh_ns * clock_hz
    # Two activations are far enough apart without being timed: see the opener's states.
    assert timing.rrd <= timing.rcd + 2


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(rrd_ns=100), "rrd_ns: wanted 4 cycles at most for IS42S16160G-7, got 7"),
        (dict(column_bits=11), "column_bits: wanted 10 at most for IS42S16160G-7, got 11"),
    ],
)
def test_parts_that_the_controller_does_not_know_how_to_keep(change, message):
    with pytest.raises(ValueError, match=message):
        Timing.derive(replace(ISSI, **change), clock_hz=70_000_000, cas_latency=3)


@pytest.mark.parametrize(
    "clock_hz, latency, message",
    [
        (142_857_143, 3, "clock_hz: wanted 1 to 142857142 for IS42S16160G-7 at CAS latency 3"),
        (100_000_001, 2, "clock_hz: wanted 1 to 100000000"),
        (0, 3, "clock_hz: wanted 1 to"),
        (24_000_000, 3, "clock_hz: wanted 192 cycles or more between refreshes"),
        (100_000_000, 4, "cas_latency: wanted 2 or 3, got 4"),
    ],
)
def test_refuses(clock_hz, latency, message):
    with pytest.raises(ValueError, match=message):
        Timing.derive(ISSI, clock_hz=clock_hz, cas_latency=latency)


def test_address_bits():
    assert 1 << ISSI.address_bits == 32 << 20
    assert 1 << SLOW.address_bits == 64 << 20
