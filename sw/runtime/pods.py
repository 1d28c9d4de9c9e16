"""Pods as devices: cores that run the same program, each with private memory."""

from collections.abc import Sequence

from celosia.hw.arch.isa import Opcode, external_span
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import Device, DeviceError
from celosia.sw.ir.program import Program


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


class Cores:
    """Devices as a pod: one core, or several that run one after the other.

    What a device raises ends the run.
    """

    def __init__(self, cores: Sequence[Device]) -> None:
        self.cores = cores
        self.config = cores[0].config

    def keep_private(self, first: int, end: int) -> None:
        """Do nothing: each core has all bytes."""

    def write_shared(self, address: int, data: bytes) -> None:
        """Write to the memories of all cores."""
        for core in self.cores:
            core.write(address, data)

    def run_each(
        self, address: int, count: int, cores: Sequence[int]
    ) -> list[RunResult | RuntimeError]:
        """Run the program on some cores."""
        return [self.cores[n].run(address, count) for n in cores]

    def close(self) -> None:
        """Release all devices."""
        for core in self.cores:
            core.close()
