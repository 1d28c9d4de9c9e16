"""Every rule of the SDRAM chip, kept to the cycle and broken by one."""

from dataclasses import replace
from itertools import pairwise

import pytest
from devices.sdram import IDLE, Command, SdramChip, SdramError
from devices.sdram_sheet import SHEETS

#: At this clock one cycle is 10 ns.
CLOCK_HZ = 100_000_000
#: tRC is longer than the sum of tRAS and tRP, so that the rules can be distinguished.
SHEET = replace(SHEETS["AS4C32M16SB-7"], t_startup=1000, t_rc=83, t_ras_max=1000, row_bits=9)
ALL = 1 << 10
PRECHARGE, ACTIVATE, READ, WRITE = (
    Command.PRECHARGE,
    Command.ACTIVATE,
    Command.READ,
    Command.WRITE,
)


def give(chip, command, *, bank=0, a=0, dq=0, dqm=0, oe=None):
    """Give one command; words of a write are driven."""
    oe = int(command == WRITE) if oe is None else oe
    levels = {"cs_n": 0, "ras_n": command >> 2, "cas_n": command >> 1 & 1, "we_n": command & 1}
    return chip.step(replace(IDLE, ba=bank, a=a, dq=dq, dqm=dqm, oe=oe, **levels))


def wait(chip, cycles, **levels):
    return [chip.step(replace(IDLE, **levels)) for _ in range(cycles)]


def run(chip, steps):
    """Play ``(at, command, bank, a)`` with ``at`` in cycles from the first."""
    give(chip, steps[0][1], bank=steps[0][2], a=steps[0][3])
    for (before, *_), (at, command, bank, a) in pairwise(steps):
        wait(chip, at - before - 1, dqm=0, oe=0)
        give(chip, command, bank=bank, a=a)


def fresh(clock_hz=CLOCK_HZ, **changes):
    return SdramChip(replace(SHEET, **changes), clock_hz=clock_hz)


def started(mode=0x20, **arguments):
    """Return a chip after its start-up: CAS latency 2, one word a burst."""
    chip = fresh(**arguments)
    wait(chip, 100)
    run(chip, [(0, PRECHARGE, 0, ALL), (3, Command.REFRESH, 0, 0), (10, Command.REFRESH, 0, 0)])
    wait(chip, 6)
    give(chip, Command.MODE, a=mode)
    wait(chip, 20)
    return chip


#: Rule; steps that keep to it, the last of which is one cycle late enough.
RULES = [
    ("tRCD", [(0, ACTIVATE, 0, 5), (3, READ, 0, 0)]),
    ("tRAS", [(0, ACTIVATE, 0, 5), (5, PRECHARGE, 0, 0)]),
    ("tRP", [(0, ACTIVATE, 0, 5), (8, PRECHARGE, 0, 0), (11, ACTIVATE, 0, 6)]),
    ("tRC", [(0, ACTIVATE, 0, 5), (3, READ, 0, 0), (5, PRECHARGE, 0, 0), (9, ACTIVATE, 0, 6)]),
    ("tRRD", [(0, ACTIVATE, 0, 5), (2, ACTIVATE, 1, 5)]),
    ("tRFC", [(0, Command.REFRESH, 0, 0), (7, ACTIVATE, 0, 0)]),
    ("tRFC", [(0, Command.REFRESH, 0, 0), (7, Command.REFRESH, 0, 0)]),
    ("tRP", [(0, ACTIVATE, 0, 5), (8, PRECHARGE, 0, ALL), (11, Command.REFRESH, 0, 0)]),
    ("tMRD", [(0, Command.MODE, 0, 0x20), (2, ACTIVATE, 0, 0)]),
    ("tWR", [(0, ACTIVATE, 0, 5), (6, WRITE, 0, 0), (8, PRECHARGE, 0, 0)]),
]


@pytest.mark.parametrize("rule, steps", RULES)
def test_times(rule, steps):
    run(started(), steps)
    at, *last = steps[-1]
    chip = started()
    with pytest.raises(SdramError, match=f"^{rule} in cycle ") as caught:
        run(chip, [*steps[:-1], (at - 1, *last)])
    assert caught.value.rule == rule
    assert caught.value.cycle == chip.cycle


STATES = [
    ("bank state", [(0, READ, 0, 0)]),
    ("bank state", [(0, ACTIVATE, 0, 5), (9, WRITE, 1, 0)]),
    ("bank state", [(0, ACTIVATE, 0, 5), (20, ACTIVATE, 0, 6)]),
    ("bank state", [(0, ACTIVATE, 0, 5), (20, Command.REFRESH, 0, 0)]),
    ("bank state", [(0, ACTIVATE, 0, 5), (20, Command.MODE, 0, 0x20)]),
    ("address", [(0, ACTIVATE, 0, 5), (9, READ, 0, ALL)]),
    ("address", [(0, ACTIVATE, 0, 1 << 9)]),
    ("mode", [(0, Command.MODE, 0, 0x27)]),
    ("mode", [(0, Command.MODE, 0, 0x10)]),
    ("mode", [(0, Command.MODE, 0, 0x28)]),
    ("tRAS max", [(0, ACTIVATE, 0, 5), (101, PRECHARGE, 0, 0)]),
]


@pytest.mark.parametrize("rule, steps", STATES)
def test_states(rule, steps):
    with pytest.raises(SdramError, match=f"^{rule} in cycle "):
        run(started(), steps)


@pytest.mark.parametrize("latency, least", [(2, 4), (3, 5)])
def test_precharge_may_not_cut_a_read(latency, least):
    steps = [(0, ACTIVATE, 0, 5), (9, READ, 0, 0), (9 + least, PRECHARGE, 0, 0)]
    mode = latency << 4 | 2
    run(started(mode), steps)
    with pytest.raises(SdramError, match="^read cut"):
        run(started(mode), [*steps[:-1], (8 + least, PRECHARGE, 0, 0)])
    # Another bank may be closed at any time.
    run(started(mode), [(0, ACTIVATE, 1, 5), *[(at + 2, *s) for at, *s in steps[:-1]]])


def test_precharge_may_not_cut_a_write():
    chip = started(0x21)
    run(chip, [(0, ACTIVATE, 0, 5), (9, WRITE, 0, 0)])
    with pytest.raises(SdramError, match="^tWR"):
        give(chip, PRECHARGE, oe=1)


STARTUPS = [
    (99, [(0, PRECHARGE, 0, ALL)]),
    (200, [(0, Command.REFRESH, 0, 0)]),
    (200, [(0, Command.MODE, 0, 0x20)]),
    (200, [(0, PRECHARGE, 0, ALL), (9, ACTIVATE, 0, 0)]),
    (200, [(0, PRECHARGE, 0, ALL), (9, Command.MODE, 0, 0x20), (20, ACTIVATE, 0, 0)]),
    (200, [(0, PRECHARGE, 0, ALL), (9, Command.REFRESH, 0, 0), (20, ACTIVATE, 0, 0)]),
]


@pytest.mark.parametrize("cycles, steps", STARTUPS)
def test_startup(cycles, steps):
    chip = fresh()
    wait(chip, cycles - 1)
    with pytest.raises(SdramError, match="^startup"):
        run(chip, steps)


def test_clock_must_be_on():
    with pytest.raises(SdramError, match="^CKE"):
        started().step(replace(IDLE, cke=0, cs_n=0, ras_n=0))


@pytest.mark.parametrize("clock_hz, fast", [(100_000_000, False), (101_000_000, True)])
def test_clock_for_cas_latency(clock_hz, fast):
    chip = fresh(clock_hz)
    wait(chip, 200)
    run(chip, [(0, PRECHARGE, 0, ALL)])
    wait(chip, 9)
    if fast:
        with pytest.raises(SdramError, match="^tCK"):
            give(chip, Command.MODE, a=0x20)
    give(chip, Command.MODE, a=0x30)


@pytest.mark.parametrize(
    "pause, rule", [(0, "contention"), (1, "contention"), (2, "contention"), (3, "tHZ"), (4, None)]
)
def test_turn_from_read_to_write(pause, rule):
    """Two words at CAS latency 2 are there 2 and 3 cycles after the command."""
    chip = started(0x21)
    run(chip, [(0, ACTIVATE, 0, 5), (9, READ, 0, 0)])
    wait(chip, pause, dqm=0)
    if rule is None:
        give(chip, WRITE)
    else:
        with pytest.raises(SdramError, match=f"^{rule}"):
            give(chip, WRITE)


def test_written_words_must_be_driven():
    chip = started(0x21)
    run(chip, [(0, ACTIVATE, 0, 5), (9, WRITE, 0, 0)])
    with pytest.raises(SdramError, match="^write data"):
        chip.step(IDLE)


@pytest.mark.parametrize("latency", [2, 3])
def test_bursts_and_masks(latency):
    chip = started(latency << 4 | 2)
    run(chip, [(0, ACTIVATE, 3, 7)])
    wait(chip, 5)
    give(chip, WRITE, bank=3, a=8, dq=0x1122, dqm=0)
    for word, mask in ((0x3344, 1), (0x5566, 2), (0x7788, 3)):
        chip.step(replace(IDLE, dq=word, dqm=mask, oe=1))
    wait(chip, 2)
    # From the third word of the block on, round its end.
    words = [give(chip, READ, bank=3, a=10), *wait(chip, latency + 4, dqm=0)]
    assert words == [None] * (latency - 1) + [0x0066, 0, 0x1122, 0x3300] + [None] * 2
    at = (7 * 4 + 3) * 1024 * 2 + 16
    assert chip.content[at : at + 8] == bytes.fromhex("2211003366000000")
    # A mask hides the word two cycles later.
    masked = [give(chip, READ, bank=3, a=8, dqm=0), *wait(chip, 1, dqm=3), *wait(chip, 5, dqm=0)]
    want: list[int | None] = [0x1122, 0x3300, 0x0066, 0]
    want[3 - latency] = None
    assert masked == [None] * (latency - 1) + want + [None] * (4 - latency)


def test_a_read_ends_the_one_before():
    chip = started(0x22)
    chip.content[5 * 4 * 2048 : 5 * 4 * 2048 + 16] = bytes(range(16))
    run(chip, [(0, ACTIVATE, 0, 5), (9, READ, 0, 0)])
    first = wait(chip, 1, dqm=0)
    words = [give(chip, READ, a=4), *wait(chip, 6, dqm=0)]
    assert first + words == [0x0100, 0x0302, 0x0908, 0x0B0A, 0x0D0C, 0x0F0E, None, None]


def test_refreshes_overdue():
    chip = started()
    run(chip, [(0, ACTIVATE, 0, 5), (9, PRECHARGE, 0, 0)])
    # Nine intervals of 781.25 cycles since the first activation, less the command.
    chip.idle(7031 - 9 - 1)
    give(chip, Command.REFRESH)
    chip = started()
    run(chip, [(0, ACTIVATE, 0, 5), (9, PRECHARGE, 0, 0)])
    with pytest.raises(SdramError, match="^tREFI"):
        chip.idle(7032 - 9)


@pytest.mark.parametrize("interval, holds", [(781, True), (782, False)])
def test_all_rows_in_time(interval, holds):
    chip = started()
    run(chip, [(0, ACTIVATE, 0, 5), (9, PRECHARGE, 0, 0)])

    def refresh():
        for _ in range(8192 + 2):
            chip.idle(interval - 1)
            give(chip, Command.REFRESH)

    if holds:
        refresh()
        assert chip.longest_refresh_gap == interval
    else:
        with pytest.raises(SdramError, match="^tREF in"):
            refresh()
