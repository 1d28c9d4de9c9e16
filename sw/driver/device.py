"""Interface of all devices."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from celosia.hw.arch.config import Config
from celosia.sw.driver.core import RunResult


class DeviceError(RuntimeError):
    """A device stopped, is not available, or does not match; the message is one line."""


class ExternalMemory(Protocol):
    """External memory of a core."""

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on.

        Raises
        ------
        ValueError
            If the bytes do not lie in the memory, or in 4 GiB on a line that does not know its
            size.
        DeviceError
            If the device is disconnected, or refuses.
        """
        ...

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory from ``address`` on; raises as ``write``."""
        ...


class Device(ExternalMemory, Protocol):
    """A core with external memory."""

    config: Config

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` words at byte ``address``.

        Raises
        ------
        ValueError
            If ``count`` is not 1 to 2**24 - 1, or the program does not lie in the memory.
        DeviceError
            If the device is disconnected, or does not end.
        """
        ...

    def close(self) -> None:
        """Release the device."""
        ...


@runtime_checkable
class PodDevice(Protocol):
    """Cores that run at the same time."""

    config: Config

    @property
    def cores(self) -> Sequence[ExternalMemory]:
        """Memories of the cores, in the order of their numbers."""
        ...

    def keep_private(self, first: int, end: int) -> None:
        """Let each core have private bytes from ``first`` up to the one before ``end``."""
        ...

    def write_shared(self, address: int, data: bytes) -> None:
        """Write bytes that are the same for all cores; raises as ``Device.write``."""
        ...

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
        """Run the program of ``count`` words at ``address`` on some cores, all at once.

        Returns for each of them its result, or why it did not end; the others end anyway.
        """
        ...

    def close(self) -> None:
        """Release the device."""
        ...
