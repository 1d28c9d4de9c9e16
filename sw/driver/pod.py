"""Driver of a pod: runs a program on several of its cores at the same time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from celosia.hw.arch.pod import BASES, PRIVATE, WORKING
from celosia.sw.driver.core import Driver, RunResult

_Core = TypeVar("_Core", bound=Driver)


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
