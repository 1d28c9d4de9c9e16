"""Pods as devices: cores that run the same program, each with private memory."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from celosia.hw.arch.config import Config
from celosia.hw.arch.driver import RunResult
from celosia.hw.arch.isa import Opcode, external_span
from celosia.hw.arch.pod import PodConfig
from celosia.sw.ir.program import Program
from celosia.sw.runtime.device import Device, DeviceError, Memory
from celosia.sw.runtime.machine import MachineDevice


@runtime_checkable
class Pod(Protocol):
    """Cores that run at the same time."""

    config: Config

    @property
    def cores(self) -> Sequence[Memory]:
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


def private_range(program: Program) -> tuple[int, int]:
    """Return the first byte that a program or its host writes for each batch, and the one after.

    It has no constants and no code between them; raises DeviceError otherwise.
    """
    written = [
        (port.address, port.address + program.batch * port.bytes_per_item)
        for part in program.parts
        for port in (*part.inputs, *part.outputs)
    ]
    for _, section in program.sections:
        for i in section.instructions:
            span = external_span(i, program.config) if i.opcode is Opcode.STORE else None
            if span is not None:
                written.append(span)
    first, end = min(first for first, _ in written), max(end for _, end in written)
    fixed = [(segment.address, len(segment.data)) for segment in program.segments]
    fixed += [(section.address, len(section.code)) for _, section in program.sections]
    if any(address < end and address + count > first for address, count in fixed if count):
        raise DeviceError(
            "cores: wanted constants apart from values, got them mixed: compile again"
        )
    return first, end


class SingleCore:
    """A device as a pod of one core; what it raises ends the run."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.config = device.config
        self.cores = (device,)

    def keep_private(self, first: int, end: int) -> None:
        """Do nothing: all bytes are of one core."""

    def write_shared(self, address: int, data: bytes) -> None:
        """Write to the memory of the core."""
        self.device.write(address, data)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
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

    def keep_private(self, first: int, end: int) -> None:
        """Do nothing: each model has all bytes."""

    def write_shared(self, address: int, data: bytes) -> None:
        """Write to the memories of all models."""
        for core in self.cores:
            core.write(address, data)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
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
        from celosia.sim.rtl.core import RtlError, RtlPod
        from celosia.sim.rtl.simulators import SimulatorNotFound

        self.config = pod.core
        try:
            self.device = RtlPod(
                pod, latency=latency, bandwidth=bandwidth, memory_bytes=memory_bytes
            )
        except (SimulatorNotFound, RtlError, OSError) as error:
            raise DeviceError(f"rtl: {error}") from error
        self.cores = self.device.cores

    def keep_private(self, first: int, end: int) -> None:
        """Let each core have private bytes from ``first`` up to the one before ``end``."""
        self.device.keep_private(first, end)

    def write_shared(self, address: int, data: bytes) -> None:
        """Write bytes that are the same for all cores."""
        self.cores[0].write(address, data)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
        """Run the program on some cores, started a few cycles after one another."""
        results = self.device.run_each(address, count, cores)
        return [
            result if isinstance(result, RunResult) else DeviceError(f"rtl: {result}")
            for result in results
        ]

    def close(self) -> None:
        """Release the simulator."""
        self.device.close()
