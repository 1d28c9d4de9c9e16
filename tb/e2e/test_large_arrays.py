"""A core whose array and memories are those of large cores: same bytes in the same cycles."""

from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.hw.matrix import shared
from celosia.hw.verilog import build
from celosia.sim.rtl import core as rtl
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Statistics
from celosia.sw.shipped import model_path

CORE = preset("nano,weight_tiles=16,parameter_channels=64,unified_bytes=8192")


def run(config: Config, device: str = "rtl") -> tuple[bytes, Statistics]:
    """Return outputs and costs of three inputs."""
    program = compile_graph(load(model_path("mnist_mlp")), config, 3)
    x = np.random.default_rng(1).integers(-128, 128, (3, 784)).astype(np.int8)
    with open_session(program, device=device) as session:
        (y,) = session.run([x])
        return y.tobytes(), session.statistics


def run_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, array: str = "cells"
) -> tuple[bytes, int | None]:
    """Return outputs and cycles of a model that is built anew, with cells or a twin."""
    monkeypatch.setenv("CELOSIA_CACHE", str(folder))
    output, costs = run(CORE)
    assert costs.array == array
    return output, costs.cycles


@pytest.mark.cosim
@pytest.mark.slow
def test_twin_and_shared_cells_take_the_cycles_of_plain_ones(tmp_path, monkeypatch):
    prerequisites.verilator()
    plain = run_anew(tmp_path / "plain", monkeypatch)
    assert plain[1] is not None
    monkeypatch.setattr(shared, "MOST", 0)
    assert run_anew(tmp_path / "twin", monkeypatch, "twin") == plain
    whole = build.verilog

    def of_cells(config: Config, **_: bool) -> str:
        text = whole(config)
        assert "celosia_array_SingleCell" in text
        return text

    monkeypatch.setattr(build, "verilog", of_cells)
    assert run_anew(tmp_path / "shared", monkeypatch, "twin") == plain


@pytest.mark.cosim
@pytest.mark.slow
@pytest.mark.parametrize("bus_bytes", [32, 64])
def test_a_bus_as_wide_as_a_block_of_the_program(bus_bytes: int):
    """A beat has parameters of several channels, and all words of a block."""
    prerequisites.verilator()
    sizes = f"rows={bus_bytes},bus_bytes={bus_bytes},lanes=4,unified_bytes=4096,weight_tiles=8"
    config = preset(f"nano,{sizes},parameter_channels=64,requantizer=sequential")
    output, costs = run(config)
    assert output == run(config, "machine")[0] and costs.cycles


def test_what_simulates_an_array():
    assert [rtl.array_of(preset(name)) for name in ("edge", "tpu_32")] == ["cells", "twin"]
