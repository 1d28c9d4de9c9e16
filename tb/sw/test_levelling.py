"""Levelling of reads, on a PHY in Python that reads well in a window of each byte lane alone."""

import random

import pytest

from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.levelling import LaneSetting, level

NAMES = (
    "dly_sel",
    "rdly_dq_rst",
    "rdly_dq_inc",
    "rdly_dq_bitslip_rst",
    "rdly_dq_bitslip",
    "burstdet_clr",
    "burstdet_seen",
)
ADDRESSES = {name: 0x800 + 4 * n for n, name in enumerate(NAMES)}
DELAYS, BITSLIPS = 8, 4


class Phy:
    """A memory whose lanes return noise outside their windows.

    ``windows``: for each lane, delays by bitslip; ``silent``: lanes without bursts outside them.
    """

    def __init__(self, *windows, silent=()):
        self.windows, self.silent = windows, silent
        self.memory = bytearray(1024)
        self.delays, self.bitslips = ([3] * len(windows) for _ in range(2))
        self.selected = self.seen = 0
        self.noise = random.Random(1)
        sizes = {"lanes": len(windows), "delays": DELAYS, "bitslips": BITSLIPS}
        self.description = sizes | ADDRESSES

    def good(self, lane):
        return self.delays[lane] in self.windows[lane].get(self.bitslips[lane], ())

    def write(self, address, data):
        self.memory[address : address + len(data)] = data

    def read(self, address, count):
        assert not self.selected, "the strobes pause"
        got = bytearray(self.memory[address : address + count])
        for lane in range(len(self.windows)):
            if self.good(lane):
                self.seen |= 1 << lane
            elif lane not in self.silent:
                self.seen |= 1 << lane
                got[lane :: len(self.windows)] = self.noise.randbytes(count // len(self.windows))
        return bytes(got)

    def load(self, address):
        assert address == ADDRESSES["burstdet_seen"]
        return self.seen

    def store(self, address, value):
        name = NAMES[(address - 0x800) // 4]
        if name == "dly_sel":
            self.selected = value
            return
        assert value == 1
        if name == "burstdet_clr":
            self.seen = 0
        kind = self.bitslips if "bitslip" in name else self.delays
        for lane in range(len(kind)):
            if self.selected >> lane & 1 and name.startswith("rdly"):
                count = BITSLIPS if "bitslip" in name else DELAYS
                kind[lane] = 0 if name.endswith("rst") else (kind[lane] + 1) % count


@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        ([{0: [0]}, {3: [7]}], [(0, 0), (3, 7)]),
        ([{1: [2, 3, 4, 5]}, {3: [0, 1, 2]}], [(1, 3), (3, 1)]),
        ([{0: [6, 7], 1: range(5)}, {2: [0, 1, 4, 5, 6]}], [(1, 2), (2, 5)]),
        ([{1: range(8)}], [(1, 3)]),
        ([{2: [4]}] * 4, [(2, 4)] * 4),
    ],
)
def test_the_middle_of_the_widest_window(windows, wanted):
    phy = Phy(*windows)
    assert level(phy, phy.description) == [LaneSetting(*each) for each in wanted]
    assert list(zip(phy.bitslips, phy.delays, strict=True)) == wanted
    assert phy.read(0, 256) == phy.memory[:256]


def test_bytes_that_are_right_without_a_burst():
    phy = Phy({1: [2, 3]}, {0: [5]}, silent=(0, 1))
    assert level(phy, phy.description) == [LaneSetting(1, 2), LaneSetting(0, 5)]


@pytest.mark.parametrize("silent", [(), (1,)])
def test_a_lane_without_a_window(silent):
    phy = Phy({1: [2, 3]}, {}, silent=silent)
    with pytest.raises(DeviceError, match="memory: byte lane 1 reads with no delay"):
        level(phy, phy.description)
