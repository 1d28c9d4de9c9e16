"""Netlists of a core on the part's cells: bytes of the machine model, cycles of the RTL."""

import json
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import prerequisites
import pytest
from networks import Activation, Convolution, FullyConnected, Pool, Reshape, write_sequential

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.hw.flow.flow import Design, synthesised
from celosia.hw.flow.gates import gates
from celosia.hw.flow.parts import PARTS
from celosia.hw.flow.tools import ToolError
from celosia.hw.verilog.build import TOP, verilog
from celosia.sim.rtl.simulators import SimulatorNotFound, find_verilator
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.fuzz.programs.faulty import faulty
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.trial import attempt
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Statistics

pytestmark = pytest.mark.slow

#: A core that is synthesised in a minute.
SIZES = (
    "nano,columns=2,dsp_columns=2,unified_bytes=2048,weight_tiles=16,accumulator_depth=64,"
    "parameter_channels=32,queue_depth=3,outstanding=2"
)
#: Kinds of cells that a netlist must have, so that their models are used.
KINDS = {
    "LFE5U-12F-CABGA381": {"LUT4", "CCU2C", "TRELLIS_DPR16X4", "DP16KD", "MULT18X18D"},
    "iCE40UP5K": {"SB_LUT4", "SB_CARRY", "SB_RAM40_4K", "SB_MAC16"},
}
PROGRAMS = 10


class Netlist(NamedTuple):
    """A core made of the cells of a part: Verilog of these, their number, seconds it took."""

    part: str
    config: Config
    verilog: Path
    cells: Counter[str]
    seconds: tuple[float, float]


@pytest.fixture(scope="module", params=KINDS)
def netlist(request, tmp_path_factory) -> Netlist:
    name: str = request.param
    part = PARTS[name]
    # A part with a multiplier for each column would get the simpler cells.
    config = replace(preset(SIZES), cells=part.family.cells)
    design = Design(name=TOP, verilog=verilog(config), part=part, megahertz=50)
    folder = tmp_path_factory.mktemp(name)
    start = time.monotonic()
    try:
        find_verilator()
        made = synthesised(design, folder)
        between = time.monotonic()
        text = gates(design, folder)
    except (ToolError, SimulatorNotFound) as missing:
        if "found none" not in str(missing):
            raise
        prerequisites.missing(missing)
    cells = json.loads(made.read_text())["modules"][TOP]["cells"].values()
    seconds = between - start, time.monotonic() - between
    return Netlist(name, config, text, Counter(cell["type"] for cell in cells), seconds)


def fully_connected(rng: np.random.Generator) -> Graph:
    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 1.5}
    layers = [
        FullyConnected(weights=weights(rng, 13, 22), activation="RELU", **scales),
        FullyConnected(weights=weights(rng, 7, 13), output_zero_point=5, **scales),
    ]
    return load(write_sequential(layers, input_shape=(1, 22), input_scale=0.5))


def convolutional(rng: np.random.Generator) -> Graph:
    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 1.5}
    layers = [
        Convolution(weights=weights(rng, 6, 3, 3, 2), padding="SAME", **scales),
        Activation(kind="RELU"),
        Pool(kind="MAX_POOL_2D"),
        Convolution(weights=weights(rng, 4, 2, 2, 6), padding="VALID", **scales),
        Pool(kind="AVERAGE_POOL_2D", padding="SAME"),
        Reshape(shape=(1, 4)),
        FullyConnected(weights=weights(rng, 5, 4), **scales),
    ]
    return load(
        write_sequential(layers, input_shape=(1, 6, 6, 2), input_scale=0.5, input_zero_point=-3)
    )


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-127, 128, shape).astype(np.int8)


def ran(program: Program, x: np.ndarray, device: str, **options) -> tuple[np.ndarray, Statistics]:
    with open_session(program, device=device, **options) as session:
        return session.run([x])[0], session.statistics


def test_cells_are_those_of_the_part(netlist, figure) -> None:
    assert netlist.cells.keys() >= KINDS[netlist.part]
    cells = ", ".join(f"{count:,} {kind}" for kind, count in netlist.cells.most_common(8))
    synthesis, models = netlist.seconds
    figure(f"{netlist.part}: {cells}; Yosys {synthesis:.0f} s, models in place {models:.0f} s")


@pytest.mark.parametrize("network", [fully_connected, convolutional])
def test_bytes_of_the_model_and_cycles_of_the_rtl(network, netlist, rng, figure) -> None:
    graph = network(rng)
    program = compile_graph(graph, preset(SIZES), 2)
    shape = graph.tensors[graph.inputs[0]].shape
    x = rng.integers(-128, 128, (4, *shape[1:])).astype(np.int8)
    wanted, _ = ran(program, x, "machine")
    assert len(np.unique(wanted)) > 8
    _, of_rtl = ran(program, x, "rtl")
    y, costs = ran(program, x, "rtl", netlist=netlist.verilog)
    np.testing.assert_array_equal(y, wanted)
    assert (costs.cycles, costs.counters) == (of_rtl.cycles, of_rtl.counters)
    assert (costs.setup_cycles, costs.setup_counters) == (
        of_rtl.setup_cycles,
        of_rtl.setup_counters,
    )
    assert costs.cycles
    figure(
        f"{netlist.part}, {network.__name__}: {costs.cycles:,} cycles, as the RTL, "
        f"{costs.cycles / costs.seconds:,.0f} cycles/s"
    )


@pytest.mark.parametrize("draw", [legal, lambda *case: faulty(*case)[1]], ids=["legal", "faulty"])
def test_random_programs(draw, netlist, seed: int, figure) -> None:
    cycles = 0
    for number in range(PROGRAMS):
        case = draw(netlist.config, random.Random(f"{seed} {number}"))
        trial = attempt(case, netlist=netlist.verilog)
        assert not trial.problems, (number, [str(problem) for problem in trial.problems])
        cycles += trial.outcome.cycles
    figure(f"{netlist.part}: {PROGRAMS} random programs, {cycles:,} cycles, 0 differences")
