"""Large arrays: shared modules and the behavioural twin, cycle by cycle against plain arrays."""

from typing import Any

import pytest
from icarus import Player

from celosia.hw.arch.presets import preset
from celosia.hw.matrix import shared
from celosia.hw.matrix.array import SystolicArray
from celosia.hw.matrix.shared import MODULE, SharedArray, array_of
from celosia.hw.matrix.twin import twin
from celosia.hw.verilog.build import convert, verilog


def outputs(kind: str, cycles: list[list[int]], folder: Any, **sizes: Any) -> list[list[int]]:
    """Return the sums of each cycle of a plain array, a shared one, or the twin."""
    array = SystolicArray(**sizes)
    rows, columns, segments = array.rows, array.columns, array.weight_rows
    name, text = MODULE, twin(array, MODULE)
    if kind != "twin":
        name = "dut"
        text = convert((SharedArray if kind == "shared" else SystolicArray)(**sizes), name=name)
    ports = {
        "activations": 8 * rows,
        "load": rows,
        "switch": 1,
        "weights": 8 * columns * segments,
        "rst": 1,
    }
    results = {"sums": columns * array.sum_bits}
    folder.mkdir(exist_ok=True)
    return Player(name, folder, ports, results, clocks=["clk"], verilog=text).play(cycles)


def stimulus(rng: Any, count: int, *, rows: int, columns: int, weight_rows: int = 1, **_: Any):
    """Return random inputs of each cycle: loads of a quarter of the rows, a switch in eight."""
    return [
        [
            int.from_bytes(rng.bytes(rows), "little"),
            int.from_bytes(rng.bytes(rows // 8 + 1), "little")
            & int.from_bytes(rng.bytes(rows // 8 + 1), "little")
            & ((1 << rows) - 1),
            int(rng.integers(8) == 0),
            int.from_bytes(rng.bytes(columns * weight_rows), "little"),
            0,
        ]
        for _ in range(count)
    ]


SMALL: list[dict[str, Any]] = [
    {"rows": 4, "columns": 4, "dsp_columns": 2},
    {"rows": 8, "columns": 6, "dsp_columns": 5, "cells": "pair", "weight_rows": 4},
    {"rows": 4, "columns": 3, "weight_rows": 2},
]


@pytest.mark.cosim
@pytest.mark.parametrize("sizes", SMALL)
def test_all_arrays_give_the_same_sums_in_every_cycle(sizes, rng, tmp_path, icarus):
    cycles = stimulus(rng, 300, **sizes)
    plain, *others = (
        outputs(kind, cycles, tmp_path / kind, **sizes) for kind in ("plain", "shared", "twin")
    )
    assert len({tuple(sums) for sums in plain}) > 200
    assert others == [plain, plain]


@pytest.mark.cosim
@pytest.mark.slow
@pytest.mark.parametrize(("size", "kind", "count"), [(16, "plain", 400), (64, "shared", 250)])
def test_the_twin_of_a_large_array(size, kind, count, rng, tmp_path, icarus):
    sizes = {"rows": size, "columns": size, "dsp_columns": size}
    cycles = stimulus(rng, count, **sizes)
    wanted = outputs(kind, cycles, tmp_path / kind, **sizes)
    assert len({tuple(sums) for sums in wanted}) > count - 2 * size
    assert outputs("twin", cycles, tmp_path / "twin", **sizes) == wanted


def test_arrays_up_to_16_rows_and_columns_are_not_shared():
    assert type(array_of(rows=16, columns=16)) is SystolicArray
    assert type(array_of(rows=32, columns=16)) is SharedArray


def test_verilog_of_a_large_array_has_each_module_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared, "MOST", 0)
    config = preset("nano,unified_bytes=1024,weight_tiles=4")
    cells, simulated = verilog(config), verilog(config, simulated=True)
    for name in ("SingleCell", "row"):
        assert cells.count(f"module celosia_array_{name}(") == 1
        assert f"celosia_array_{name}" not in simulated
    for text in (cells, simulated):
        assert text.count("module celosia_array(") == 1
