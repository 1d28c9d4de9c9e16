"""Levelling of the reads of a DDR3 chip: the delay of each byte lane, found by trying."""

import random
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple, Protocol

from celosia.sw.driver.device import DeviceError

#: Bytes that every setting reads: 16 bursts of a chip with 16 data lines.
_PATTERN = random.Random(0).randbytes(256)


class Link(Protocol):
    """Access to external memory, and to every register of a system by its address."""

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory."""
        ...

    def load(self, address: int) -> int:
        """Return a register."""
        ...

    def store(self, address: int, value: int) -> None:
        """Write a register exactly once."""
        ...


class LaneSetting(NamedTuple):
    """Setting of a byte lane."""

    bitslip: int  #: Bits by which its words are shifted.
    delay: int  #: Steps by which its strobe is delayed.


def level(link: Link, phy: Mapping[str, int]) -> list[LaneSetting]:
    """Set each byte lane to the middle of the widest range of delays that reads what was written.

    The first bytes of external memory are overwritten.

    Parameters
    ----------
    link : Link
        Line to the system, whose memory controller is started.
    phy : mapping of str to int
        ``levelling`` of its description, see ``docs/how-to/litex.md``.

    Returns
    -------
    list of LaneSetting
        The setting of each lane.

    Raises
    ------
    DeviceError
        If a lane reads with no setting.
    """
    link.write(0, _PATTERN)
    settings = []
    for lane in range(phy["lanes"]):
        length, bitslip, first = max(_ranges(link, phy, lane), default=(0, 0, 0))
        setting = LaneSetting(bitslip, first + (length - 1) // 2)
        _act(link, phy, lane, "rdly_dq_bitslip_rst", "rdly_dq_rst")
        for name, count in zip(("rdly_dq_bitslip", "rdly_dq_inc"), setting, strict=True):
            for _ in range(count):
                _act(link, phy, lane, name)
        if not length or not _reads(link, phy, lane):
            raise DeviceError(f"memory: byte lane {lane} reads with no delay what was written")
        settings.append(setting)
    return settings


def _ranges(link: Link, phy: Mapping[str, int], lane: int) -> Iterator[tuple[int, int, int]]:
    """Yield length, bitslip and first delay of each range with which a lane reads."""
    _act(link, phy, lane, "rdly_dq_bitslip_rst")
    for bitslip in range(phy["bitslips"]):
        _act(link, phy, lane, "rdly_dq_rst")
        read = []
        for delay in range(phy["delays"]):
            read.append((delay, _reads(link, phy, lane)))
            _act(link, phy, lane, "rdly_dq_inc")
        for good, trials in groupby(read, key=lambda trial: trial[1]):
            delays = [delay for delay, _ in trials]
            if good:
                yield len(delays), bitslip, delays[0]
        _act(link, phy, lane, "rdly_dq_bitslip")


def _reads(link: Link, phy: Mapping[str, int], lane: int) -> bool:
    """Return whether a lane reads what was written, after a burst that the PHY has detected."""
    link.store(phy["burstdet_clr"], 1)
    every = slice(lane, None, phy["lanes"])
    right = link.read(0, len(_PATTERN))[every] == _PATTERN[every]
    return right and bool(link.load(phy["burstdet_seen"]) >> lane & 1)


def _act(link: Link, phy: Mapping[str, int], lane: int, *names: str) -> None:
    """Do something to a lane; its strobe, then those of all, pause for it."""
    link.store(phy["dly_sel"], 1 << lane)
    for name in names:
        link.store(phy[name], 1)
    for selected in (0, (1 << phy["lanes"]) - 1, 0):
        link.store(phy["dly_sel"], selected)
