"""The machine model as a device."""

import numpy as np

from celosia.hw.arch.commands import WORD_BYTES, require_place
from celosia.hw.arch.config import Config
from celosia.sw.driver.core import RunResult, require_program
from celosia.sw.driver.device import DeviceError


class MachineDevice:
    """Device that runs programs on the NumPy model: exact bytes, no cycles.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    memory_bytes : int
        External memory.

    Raises
    ------
    DeviceError
        If there is not enough memory for it.
    """

    def __init__(self, config: Config, memory_bytes: int) -> None:
        from celosia.sim.model.machine import Machine

        self.config = config
        try:
            self.machine = Machine(config, memory_bytes=memory_bytes)
        except MemoryError:
            raise DeviceError(f"machine: no {memory_bytes} bytes of memory available") from None

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        self.machine.memory[self._span(address, len(data))] = np.frombuffer(data, np.uint8)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self.machine.memory[self._span(address, count)].tobytes()

    def _span(self, address: int, count: int) -> slice:
        require_place(address, count, len(self.machine.memory))
        return slice(address, address + count)

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` words at byte ``address``.

        Raises
        ------
        ValueError
            If ``count`` is out of range, or the program does not lie in the memory.
        DeviceError
            If an instruction is too long for the model.
        """
        from celosia.sim.model.machine import MachineError, TooLong

        require_program(address, count, len(self.machine.memory))
        try:
            self.machine.run(self.read(address, count * WORD_BYTES))
        except MachineError as error:
            return RunResult(error=(error.error, error.unit, error.index))
        except TooLong as error:
            raise DeviceError(f"machine: {error}") from None
        return RunResult()

    def close(self) -> None:
        """Do nothing: the model holds no device."""
