"""One program on the RTL and on the machine model."""

from collections.abc import Mapping, Sequence

import numpy as np

from celosia.hw.arch import commands
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction
from celosia.sim.check import hazards
from celosia.sim.model.machine import Machine
from celosia.sw.runtime.backends import open_device

#: Bytes of external memory, and the address of the program.
MEMORY, CODE = 1 << 16, 1 << 15


def run(
    config: Config,
    program: Sequence[Instruction],
    contents: Mapping[int, bytes],
    result: int,
    size: int,
) -> tuple[np.ndarray, int | None]:
    """Return ``size`` bytes from ``result`` on, int8, and the cycles of the RTL if it counts them.

    ``contents``: bytes of external memory, by address. Fails if the program has a hazard, or if the
    two devices leave different bytes.
    """
    code = commands.encode(program)
    hazards.check_hazards(program, config)
    machine = Machine(config, memory_bytes=MEMORY)
    device = open_device("rtl", config, MEMORY)
    for address, content in {**contents, CODE: code}.items():
        machine.memory[address : address + len(content)] = np.frombuffer(content, np.uint8)
        device.write(address, content)
    machine.run(program)
    ran = device.run(CODE, len(code) // commands.WORD_BYTES)
    found = device.read(result, size)
    assert found == machine.memory[result : result + size].tobytes()
    return np.frombuffer(found, np.int8), ran.cycles
