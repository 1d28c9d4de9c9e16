"""A controller that breaks a rule by one cycle is caught, so the rules are reached."""

from dataclasses import fields, replace

import pytest
from devices.sdram import SdramError
from devices.sdram_sheet import SHEETS
from sdram_bench import Burst, build, simulate

from celosia.hw.sdram.timing import PARTS, Timing


def conflicts(count):
    """Bursts of one beat, each in another row of the same bank."""
    return [Burst((n % 7) << 13, 1) for n in range(count)]


def writes(count):
    return [
        replace(burst, length=2, beats=[(n, 15)] * 2) for n, burst in enumerate(conflicts(count))
    ]


SLOW = {"part": "AS4C32M16SB-6", "clock_hz": 100_000_000, "cas_latency": 2}
FAST = {"part": "IS42S16160G-7", "clock_hz": 120_000_000, "cas_latency": 3}
LATE = {"part": "AS4C32M16SB-7", "clock_hz": 133_000_000, "cas_latency": 3}
#: Field of the timing, how much is taken from it, the chip, what is asked of it, the rule.
BROKEN = [
    ("rcd", 1, LATE, "tRCD"),
    ("rp", 1, FAST, "tRP"),
    ("rc", 1, FAST, "tRC"),
    ("ras", 1, SLOW, "tRAS"),
    ("wr", 1, FAST, "tWR"),
    ("rfc", 3, FAST, "tRFC"),
    ("startup", 4, FAST, "startup"),
    ("refresh_interval", -1200, FAST, "tREFI"),
]


def breaking(dut, chip, count=30):
    chip.postponed = 1
    simulate(dut, chip, conflicts(count), writes(count))


@pytest.mark.parametrize("arguments", [SLOW, FAST, LATE])
def test_kept(arguments):
    dut, chip = build(**arguments, data_bytes=4)
    breaking(dut, chip, count=110)
    assert chip.longest_refresh_gap < 1.2 * chip.refresh_cycles


@pytest.mark.parametrize("name, less, arguments, rule", BROKEN)
def test_broken_by_a_cycle(name, less, arguments, rule):
    dut, chip = build(**arguments, data_bytes=4)
    dut.timing = replace(dut.timing, **{name: getattr(dut.timing, name) - less})
    with pytest.raises(SdramError, match=f"^{rule} in cycle"):
        breaking(dut, chip, count=300 if name == "refresh_interval" else 30)


def hits(count):
    """Bursts of one beat in one open row."""
    return [Burst(16 * n, 1) for n in range(count)]


@pytest.mark.parametrize(
    "method, less, bursts, rule",
    [
        ("read_to_write", 1, hits, "tHZ"),
        ("read_to_write", 2, hits, "contention"),
        ("read_to_precharge", 1, conflicts, "read cut"),
        ("write_to_precharge", 1, conflicts, "tWR"),
    ],
)
def test_distances_broken_by_a_cycle(monkeypatch, method, less, bursts, rule):
    right = getattr(Timing, method)
    dut, chip = build(**FAST, data_bytes=16)
    monkeypatch.setattr(Timing, method, lambda self, words: right(self, words) - less)
    others = [Burst(1024 + burst.address, 1, 0, [(1, 0xFFFF)]) for burst in bursts(30)]
    with pytest.raises(SdramError, match=f"^{rule} in cycle"):
        simulate(dut, chip, bursts(30), others)


@pytest.mark.parametrize("name", PARTS)
def test_both_tables_say_the_same(name):
    """One was written for the controller and one for its judge."""
    part, sheet = PARTS[name], SHEETS[name]
    assert (part.clock_cl2_ns, part.clock_cl3_ns) == (sheet.t_ck[2], sheet.t_ck[3])
    assert (part.refresh_ns, part.refresh_count) == (sheet.t_ref, sheet.refreshes)
    for field in fields(part):
        if field.name.endswith("_bits"):
            assert getattr(part, field.name) == getattr(sheet, field.name)
    for short in ("rcd", "rp", "ras", "rc", "rrd", "rfc", "wr", "mrd", "startup"):
        assert getattr(part, f"{short}_ns") == getattr(sheet, f"t_{short}")
    assert set(PARTS) == set(SHEETS)
