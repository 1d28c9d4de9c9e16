"""The machine model beside a unit, and the blocks of a core that benches simulate."""

from typing import Any

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.core import Core
from celosia.sim.check.schedule import MachineError
from celosia.sim.model.machine import Machine
from celosia.sw.fuzz import stage
from celosia.sw.fuzz.programs.generator import Generator
from cosim.bench import Bench

HALT = Instruction(Opcode.HALT)


def block(config: Config, name: str) -> Any:
    """Return a block of a core, with the sizes and latencies that it has there."""
    return getattr(Core(config=config).blocks(), name)


def machine_of(bench: Bench) -> Machine:
    """Return a machine with random contents in all memories."""
    machine = Machine(bench.config, memory_bytes=stage.SIZE)
    machine.memory[:] = stage.content(bench.config, bench.numbers)
    machine.run([*stage.opening(bench.config), HALT])
    return machine


def generator_of(bench: Bench) -> Generator:
    """Return a generator of instructions for such a machine."""
    regions = {"source": stage.SOURCE, "target": stage.TARGET, "parameters": stage.PARAMETERS}
    return Generator(bench.config, bench.rng, **regions)


def run(machine: Machine, *instructions: Instruction) -> tuple[isa.Error, int] | None:
    """Run instructions on a machine; return the error and the index of the one that fails."""
    try:
        machine.run([*instructions, HALT])
    except MachineError as error:
        return error.error, error.index
    return None


def same(actual: Any, expected: np.ndarray, what: object) -> None:
    """Check that arrays are equal; the message has the first places that differ."""
    wrong = np.argwhere(np.asarray(actual) != expected)
    if wrong.size:
        first = tuple(wrong[0])
        values = f"wanted {expected[first]}, got {np.asarray(actual)[first]}"
        raise AssertionError(f"{what}: {len(wrong)} differ, first {first}: {values}")


def weight_beats(machine: Machine, tile: int) -> list[dict[str, Any]]:
    """Return the writes of the weight buffer that give it a tile of the machine."""
    config = machine.config
    bytes_ = np.zeros((config.rows, config.tile_row_bytes), np.uint8)
    bytes_[:, : config.columns] = machine.weights[tile].view(np.uint8)
    beats = bytes_.reshape(config.rows, -1, config.bus_bytes).tolist()
    return [
        {"tile": tile, "row": row, "block": block, "data": data}
        for row, blocks in enumerate(beats)
        for block, data in enumerate(blocks)
    ]


def parameter_memory(machine: Machine) -> dict[isa.Kind, np.ndarray]:
    """Return the bytes of all channels and tables of a machine, as the load unit writes them."""
    raw = np.zeros((len(machine.parameters), PARAMETER_BYTES), np.uint8)
    raw[:, : machine.parameters.itemsize] = machine.parameters.view(np.uint8).reshape(len(raw), -1)
    tables = machine.tables.view(np.uint8).ravel().copy()
    return {isa.Kind.CHANNELS: raw.ravel(), isa.Kind.TABLES: tables}


def parameter_beats(machine: Machine) -> list[dict[str, Any]]:
    """Return the writes that give all parameters and tables of the machine to a vector unit."""
    size = machine.config.bus_bytes
    return [
        {"kind": kind, "offset": offset, "data": content[offset : offset + size].tolist()}
        for kind, content in parameter_memory(machine).items()
        for offset in range(0, content.size, size)
    ]
