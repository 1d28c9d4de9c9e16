"""Pods as devices: cores that run the same program, each with memory of its own."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from celosia.hw.arch.config import Config
from celosia.hw.arch.driver import RunResult
from celosia.hw.arch.pod import PodConfig
from celosia.sw.runtime.device import Device, DeviceError
from celosia.sw.runtime.machine import MachineDevice


class Memory(Protocol):
    """Memory of a core."""

    def write(self, address: int, data: bytes) -> None:
        """Write from byte ``address`` on; raises as ``Device.write``."""
        ...

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes from byte ``address`` on; raises as ``Device.write``."""
        ...


@runtime_checkable
class Pod(Protocol):
    """Cores that run at the same time."""

    config: Config

    @property
    def cores(self) -> Sequence[Memory]:
        """Memories of the cores, in the order of their numbers."""
        ...

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | DeviceError]:
        """Run the program of ``count`` words at ``address`` on some cores, all at once.

        Returns for each of them its result, or why it did not end; the others end anyway.
        """
        ...

    def close(self) -> None:
        """Release the device."""
        ...


class SingleCore:
    """A device as a pod of one core; what it raises ends the run."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.config = device.config
        self.cores = (device,)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | DeviceError]:
        """Run the program on the core, if it is one of ``cores``."""
        return [self.device.run(address, count) for _ in cores]

    def close(self) -> None:
        """Release the device."""
        self.device.close()


class MachinePod:
    """Machine models, one after the other.

    - ``pod``: sizes.
    - ``memory_bytes``: external memory of each core.
    """

    def __init__(self, pod: PodConfig, memory_bytes: int) -> None:
        self.config = pod.core
        self.cores = tuple(MachineDevice(pod.core, memory_bytes) for _ in range(pod.cores))

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | DeviceError]:
        """Run the program on some cores."""
        return [self.cores[n].run(address, count) for n in cores]

    def close(self) -> None:
        """Do nothing: the models hold no device."""


class RtlPodBackend:
    """Simulated Verilog of a pod: exact bytes, exact cycles.

    - ``pod``: sizes.
    - ``memory_bytes``: external memory of each core.
    - ``latency``, ``bandwidth``: of each memory port, see ``RtlBackend``.

    Raises as ``RtlBackend``.
    """

    def __init__(
        self, pod: PodConfig, memory_bytes: int, latency: int = 32, bandwidth: float = 1.0
    ) -> None:
        from celosia.sim.rtl import RtlError, RtlPod
        from celosia.sim.simulators import SimulatorNotFound

        self.config = pod.core
        try:
            self.device = RtlPod(
                pod, latency=latency, bandwidth=bandwidth, memory_bytes=memory_bytes
            )
        except (SimulatorNotFound, RtlError, OSError) as error:
            raise DeviceError(f"rtl: {error}") from error
        self.cores = self.device.cores

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | DeviceError]:
        """Run the program on some cores, started a few cycles after one another."""
        from celosia.sim.rtl import RtlError

        chosen = [self.cores[n] for n in cores]
        for core in chosen:
            core.prepare(address, count)
        for core in chosen:
            core.start()
        results: list[RunResult | DeviceError] = []
        for core in chosen:
            try:
                results.append(core.finish())
            except RtlError as error:
                results.append(DeviceError(f"rtl: {error}"))
        return results

    def close(self) -> None:
        """Release the simulator."""
        self.device.close()
