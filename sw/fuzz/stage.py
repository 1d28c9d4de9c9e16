"""Memory map of random programs, and the code that fills and stores all state of a core."""

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Rounding, Space
from celosia.sw.fuzz.images import bytes_image, channels_image

#: Regions of external memory: source of loads, channels' parameters, target of stores, target of
#: ``closing``, programs.
SIZE = 1 << 15
SOURCE = (0, 1 << 12)
PARAMETERS = (1 << 12, 1 << 12)
TARGET = (1 << 13, 1 << 13)
DUMP = 1 << 14
CODE = 3 << 13


def unsupported(config: Config) -> str | None:
    """Return the field of a core with which ``opening`` and ``closing`` cannot run, or None."""
    sums = config.accumulator_rows * config.columns
    shown = 4 * config.lanes
    requirements = {
        "unified_bytes": config.unified_bytes <= SOURCE[1],
        "weight_tiles": 64 + config.weight_tiles * config.tile_bytes <= SOURCE[1],
        "tables": config.table_slots * TABLE_BYTES <= SOURCE[1],
        "parameter_channels": config.parameter_channels >= shown
        and (shown + config.parameter_channels) * PARAMETER_BYTES <= PARAMETERS[1],
        "columns": sums <= config.unified_bytes,
        "accumulator_depth": DUMP + config.unified_bytes + 4 * sums <= CODE
        and 3 * (config.accumulator_depth - 1) + 2 * config.rows <= config.unified_bytes,
    }
    return next((field for field, fits in requirements.items() if not fits), None)


def content(config: Config, numbers: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """Return random contents of external memory, uint8, with valid parameters in their region."""
    image = numbers.integers(0, 256, size, np.uint8)
    first, count = PARAMETERS
    channels = channels_image(count // PARAMETER_BYTES, numbers)
    channels[: 4 * PARAMETER_BYTES * config.lanes] = bytes_image(config.lanes)
    image[first : first + count] = channels
    return image


def opening(config: Config) -> list[Instruction]:
    """Return instructions that write every address of the core's memories."""
    first = PARAMETERS[0] + 4 * PARAMETER_BYTES * config.lanes
    return [
        Instruction(Opcode.LOAD, external=SOURCE[0], length=config.unified_bytes),
        Instruction(Opcode.LOAD_WEIGHTS, external=SOURCE[0] + 64, tiles=config.weight_tiles),
        Instruction(Opcode.LOAD_PARAMS, external=first, count=config.parameter_channels),
        Instruction(
            Opcode.LOAD_PARAMS, external=SOURCE[0], kind=Kind.TABLES, count=config.table_slots
        ),
        *(
            Instruction(
                Opcode.MATMUL,
                x_count=config.accumulator_depth,
                x_stride=3,
                taps=2 * config.rows,
                accumulator=half * config.accumulator_depth,
            )
            for half in range(2)
        ),
    ]


def closing(config: Config) -> list[Instruction]:
    """Return instructions that store all of the unified buffer and of the accumulators.

    Sums are stored byte by byte: four different shifts to the left, 24 to the right.
    """
    return [*_multiplied(config), *_stored(config)]


def _multiplied(config: Config) -> list[Instruction]:
    """Return MATMULs that add products of all tiles that MOVE_WEIGHTS may have filled to sums."""
    if not isa.has(Opcode.MOVE_WEIGHTS, config):
        return []
    half = config.unified_bytes // (2 * config.rows)
    count = min(config.accumulator_depth, config.unified_bytes // 2)
    return [
        Instruction(
            Opcode.MATMUL,
            x_count=count,
            x_stride=1,
            taps=min(half, config.weight_tiles - tile) * config.rows,
            tile=tile,
            accumulate=1,
        )
        for tile in range(0, config.weight_tiles, half)
    ]


def _stored(config: Config) -> list[Instruction]:
    count = config.accumulator_rows * config.columns
    program = [
        Instruction(Opcode.STORE, external=DUMP, length=config.unified_bytes),
        Instruction(Opcode.LOAD_PARAMS, external=PARAMETERS[0], count=4 * config.lanes),
    ]
    for byte in range(4):
        program += [
            Instruction(
                Opcode.VECTOR,
                source=Space.ACCUMULATORS,
                x_count=config.accumulator_rows,
                source_x_stride=1,
                channels=config.columns,
                destination_x_stride=config.columns,
                params=byte * config.lanes,
                rounding=Rounding.DOUBLE,
            ),
            Instruction(
                Opcode.STORE,
                external=DUMP + config.unified_bytes + byte * count,
                length=count,
            ),
        ]
    return program
