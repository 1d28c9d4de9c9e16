"""What every device offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config

__all__ = ["Device", "DeviceError", "RunResult"]


class DeviceError(RuntimeError):
    """A device stopped, cannot be had, or does not fit; the message is one line."""


@dataclass(frozen=True)
class RunResult:
    """How a run of a program ended.

    Parameters
    ----------
    cycles : int or None
        Cycles from start to HALT; None where the device has no clock.
    counters : mapping or None
        For each unit, cycles by class; the classes of a unit sum to ``cycles``.
    error : tuple or None
        Code of the error, unit that noticed it, and index of the instruction in the program.
    """

    cycles: int | None = None
    counters: Mapping[str, Mapping[str, int]] | None = None
    error: tuple[isa.Error, isa.Unit, int] | None = None


class Device(Protocol):
    """A core with external memory."""

    config: Config

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        ...

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        ...

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` instructions at byte ``address``."""
        ...

    def close(self) -> None:
        """Give back what the device holds."""
        ...
