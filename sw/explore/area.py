"""Area of a core on an ECP5: memories and multipliers counted, logic fitted to syntheses.

LUT and registers are sums over blocks of terms in the sizes of the core. The coefficients are
fitted to the syntheses of ``syntheses.json`` and further ones each time: not below zero, least
relative errors.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch.config import TABLE_BYTES, Config

#: Syntheses that come with Celosia.
SYNTHESES = Path(__file__).with_name("syntheses.json")

#: Blocks of the fit; a synthesis has counts of each, or of ``all``.
BLOCKS = ("matrix", "vector", "rest")

#: Words of a block RAM by their width in bits.
_MODES = {36: 512, 18: 1024, 9: 2048, 4: 4096, 2: 8192, 1: 16384}
#: LUTs in place of which Yosys takes a block RAM.
_BLOCK_LUTS = 128
#: Bits of the parameters of one channel, see ``hw/streams.py``, and of a sum.
_CHANNEL_BITS, _SUM_BITS = 73, 32
#: Block RAMs of the sequencer: fetched instructions, and activity counters of five units.
_FETCH, _COUNTERS = 4, 5
#: Multipliers of a pipelined requantiser.
_LANE_MULTIPLIERS = 3

#: Multiplied columns of one multiplier, by the cells of an array on an ECP5.
COLUMNS_OF_CELLS = {"ecp5": 1, "ecp5_pair": 2}

#: Fields of a core that no term has.
LEFT_OUT = ("activation_weights", "elementwise_products", "protection", "softmax", "weight_rows")

#: Rounds of the fit, and the weight that keeps terms small that no synthesis has.
_ROUNDS, _RIDGE = 2000, 1e-5


class Area(NamedTuple):
    """Cells of a core alone; fields in the order of ``celosia.hw.flow.parts.COLUMNS``."""

    luts: int
    registers: int
    multipliers: int
    memories: int


class Synthesis(NamedTuple):
    """A measured core: counts of LUT and of FF by block."""

    config: Config
    counts: Mapping[str, Mapping[str, float]]


def memories_of(config: Config) -> int:
    """Return the block RAMs, from the shapes of the memories."""
    segment = config.rows // config.weight_rows
    unified = config.rows * _blocks(config.unified_rows, 8)
    banks = config.columns * config.weight_rows
    weights = banks * _blocks(config.weight_tiles * segment, 8)
    sums = 2 * config.columns * _blocks(config.accumulator_depth, _SUM_BITS)
    parameters = _blocks(*_parameters(config))
    tables = _blocks(config.tables * TABLE_BYTES, 8)
    counters = _COUNTERS if config.counters == "units" else 0
    return unified + weights + sums + config.lanes * (parameters + tables) + _FETCH + counters


def _parameters(config: Config) -> tuple[int, int]:
    """Return depth and width of the memory of parameters of one lane."""
    return config.parameter_channels // config.lanes, _CHANNEL_BITS


def _blocks(depth: int, width: int) -> int:
    """Return the block RAMs of a memory, in the best of their modes; 0 of one in LUTs."""
    count = min(-(-width // bits) * -(-depth // words) for bits, words in _MODES.items())
    return count if _BLOCK_LUTS * count < _luts(depth, width) else 0


def _luts(depth: int, width: int) -> int:
    """Return the LUTs of a memory that is made of them: four for 16 × 4 bits, and a selection."""
    parts = -(-depth // 16)
    return 4 * -(-width // 4) * parts + width * (parts - 1)


def multipliers_of(config: Config) -> int:
    """Return the multipliers; ``config`` is one that ``FpgaPart.suited`` returned."""
    columns = config.dsp_columns // COLUMNS_OF_CELLS[config.cells]
    lanes = config.lanes if config.requantizer == "pipelined" else 0
    return config.rows * columns + _LANE_MULTIPLIERS * lanes


def _terms(config: Config) -> dict[str, list[float]]:
    """Return the terms of each block."""
    cells = config.rows * config.columns
    multiplied = config.rows * config.dsp_columns
    paired = multiplied * (COLUMNS_OF_CELLS[config.cells] - 1)
    lanes, is_sequential = config.lanes, config.requantizer == "sequential"
    in_luts = 0 if _blocks(*_parameters(config)) else lanes * _luts(*_parameters(config))
    luts, units, bits = config.counters == "luts", config.counters == "units", config.address_bits
    addresses = config.columns * (config.accumulator_depth - 1).bit_length()
    addresses += config.rows * (config.weight_tiles - 1).bit_length()
    return {
        "matrix": [
            *(config.rows, config.columns, lanes, addresses),
            *(multiplied - paired, paired, cells - multiplied),
        ],
        "vector": [
            *(1, config.columns, lanes > 1, in_luts),
            *(lanes * (not is_sequential), lanes * is_sequential),
        ],
        "rest": [1, config.rows, luts, units, bits],
    }


def _equations(synthesis: Synthesis, kind: str) -> list[tuple[np.ndarray, float]]:
    """Return terms and count of each block that was counted, relative to the core's."""
    terms = _terms(synthesis.config)
    counts = synthesis.counts[kind]
    total = sum(counts.values())
    equations = []
    for name, count in counts.items():
        parts = [np.multiply(terms[block], float(name in (block, "all"))) for block in BLOCKS]
        equations.append((np.concatenate(parts) / total, count / total))
    return equations


def fitted(syntheses: Sequence[Synthesis], kind: str) -> np.ndarray:
    """Return the coefficients of all terms for ``kind``, LUT or FF."""
    equations = [e for synthesis in syntheses for e in _equations(synthesis, kind)]
    rows = np.array([row for row, _ in equations])
    counts = np.array([count for _, count in equations])
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-9)
    rows = rows / scale
    square = rows.T @ rows + _RIDGE * np.eye(len(scale))
    right = rows.T @ counts
    result = np.zeros(len(scale))
    for _ in range(_ROUNDS):
        for n, own in enumerate(square.diagonal()):
            result[n] = max(0.0, result[n] + (right[n] - square[n] @ result) / own)
    return result / scale


def _count(config: Config, coefficients: np.ndarray) -> float:
    return float(np.concatenate([*_terms(config).values()]) @ coefficients)


class Model:
    """The model of the area, fitted to syntheses."""

    def __init__(self, syntheses: Sequence[Synthesis]) -> None:
        self.syntheses = syntheses
        self._coefficients = {kind: fitted(syntheses, kind) for kind in ("LUT", "FF")}

    def area(self, config: Config) -> Area:
        """Return the area of a core that ``FpgaPart.suited`` returned."""
        luts, registers = (round(_count(config, e)) for e in self._coefficients.values())
        return Area(luts, registers, multipliers_of(config), memories_of(config))

    def errors(self, kind: str) -> list[tuple[str, float, float]]:
        """Return for each synthesis its name, and the relative errors with it and without it."""
        result = []
        for n, synthesis in enumerate(self.syntheses):
            others = [*self.syntheses[:n], *self.syntheses[n + 1 :]]
            total = sum(synthesis.counts[kind].values())
            pair = (self._coefficients[kind], fitted(others, kind))
            both = (_count(synthesis.config, e) / total - 1 for e in pair)
            result.append((synthesis.config.name, *both))
        return result


def read_syntheses(rows: Sequence[Mapping[str, Any]]) -> list[Synthesis]:
    """Return syntheses of rows of ``syntheses.json``, or of reports of ``celosia synth --json``.

    Raises ValueError if a row is none, or its part is no ECP5.
    """
    from celosia.hw.arch.presets import preset
    from celosia.hw.flow.parts import ECP5, part_named

    result = []
    for row in rows:
        try:
            part = part_named(row["part"].partition(",")[0])
            config = preset(row["preset"])
            counts = {kind: _of_report(row, kind) for kind in ("LUT", "FF")}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"wanted a report of celosia synth --json, got {error!r}") from None
        if part is None or part.family is not ECP5:
            raise ValueError(f"wanted a synthesis for an ECP5, got {row['part']}")
        result.append(Synthesis(part.suited(config), counts))
    return result


def _of_report(row: Mapping[str, Any], kind: str) -> Mapping[str, float]:
    """Return the counts of a kind by block."""
    if "blocks" not in row:
        return row[kind]
    counts = {name: cells[kind] for name, cells in row["blocks"].items() if name != "outside"}
    own = {name: counts.pop(name) for name in BLOCKS[:2]}
    return own | {"rest": sum(counts.values())}


@cache
def known_syntheses() -> tuple[Synthesis, ...]:
    """Return the syntheses that come with Celosia."""
    return tuple(read_syntheses(json.loads(SYNTHESES.read_text("utf-8"))))
