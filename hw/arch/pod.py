"""Pod of cores: sizes, and the host's view of its registers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from celosia.hw.arch.config import Config
from celosia.hw.arch.driver import Driver, RunResult
from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS

#: Bytes of the registers of one core, and of those of the pod after the last core's.
PAGE = 1 << REGISTER_ADDRESS_BITS

#: Registers of the pod, in its page: the number of cores; a bit for each core that works; the first
#: private address, and the one after the last; the base address of the first core.
CORES, WORKING, PRIVATE, BASES = 0x000, 0x004, 0x008, 0x100

#: Most cores of a pod.
MOST_CORES = 16

_Core = TypeVar("_Core", bound=Driver)


@dataclass(frozen=True)
class PodConfig:
    """Sizes of a pod.

    Parameters
    ----------
    core : Config
        Sizes of each core.
    cores : int
        Number of cores: a power of two, 2 to ``MOST_CORES``.
    ports : int
        Number of memory ports: a power of two, at most ``cores``. Each serves ``cores // ports``
        cores.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    core: Config
    cores: int
    ports: int = 1

    def __post_init__(self) -> None:
        for name, most in (("cores", MOST_CORES), ("ports", self.cores)):
            value, least = getattr(self, name), 2 if name == "cores" else 1
            if not least <= value <= most or value & (value - 1):
                wanted = f"a power of two, {least} to {most}"
                raise ValueError(f"pod: {name}: wanted {wanted}, got {value}")

    @property
    def address_bits(self) -> int:
        """Bits of an address of a register."""
        return REGISTER_ADDRESS_BITS + self.cores.bit_length()

    @property
    def each(self) -> int:
        """Cores of a memory port."""
        return self.cores // self.ports

    @property
    def id_bits(self) -> int:
        """Bits of a transaction number on a memory port; writes have the core's above its own."""
        return self.each.bit_length()


class PodDriver(ABC, Generic[_Core]):
    """Runs programs on the cores of a pod through its registers, on any device.

    Attributes
    ----------
    cores : sequence of Driver
        The cores, in the order of their numbers.
    """

    cores: Sequence[_Core]

    @abstractmethod
    def set_pod_register(self, offset: int, value: int) -> None:
        """Write a register of the pod's own page."""

    def divide(self, window: int) -> None:
        """Give each core private bytes from its number times ``window``, a power of two, on."""
        for n in range(len(self.cores)):
            self.set_pod_register(BASES + 4 * n, n * window)

    def keep_private(self, first: int, end: int) -> None:
        """Let each core have private bytes from ``first`` up to the one before ``end``.

        All others are those of core 0.
        """
        self.set_pod_register(PRIVATE, first)
        self.set_pod_register(PRIVATE + 4, end)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
        """Run the program of ``count`` words at ``address`` on some cores.

        They are started one after another and run at the same time. Returns for each of them its
        result, or why it did not end. Raises as ``Driver.prepare``.
        """
        chosen = [self.cores[n] for n in cores]
        # The others are not waited for.
        self.set_pod_register(WORKING, sum(1 << n for n in cores))
        for core in chosen:
            core.prepare(address, count)
        for core in chosen:
            core.start()
        results: list[RunResult | RuntimeError] = []
        for core in chosen:
            try:
                results.append(core.finish())
            except RuntimeError as error:
                results.append(error)
        return results
