"""Cycles of each layer, counted by the RTL: a program run one layer at a time."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from celosia.hw.arch.isa import disassemble
from celosia.sw.compiler.compile import Compiled, LayerSection, layer_sections
from celosia.sw.compiler.report import Alone, Measured
from celosia.sw.program import Program, Section
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.device import Device, DeviceError
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.session import Session

__all__ = ["measure"]


def measure(compiled: Compiled, *, latency: int = 32, bandwidth: float = 1.0) -> Measured:
    """Run a program on the RTL, whole and one layer at a time; return what was counted.

    The inputs are random: cycles do not depend on them. Shows its progress on stderr, when that is
    a terminal and it takes long.

    Parameters
    ----------
    compiled : Compiled
        The program.
    latency : int
        Cycles from a request to external memory to its first answer.
    bandwidth : float
        Beats of external memory per cycle, above 0 up to 2.

    Raises
    ------
    DeviceError
        If there is no simulator, the core stops with an error, or the layers one at a time leave
        other outputs than the machine model.
    """
    from celosia.sim.cycles import COSTS, estimate

    program = compiled.program
    costs = COSTS._replace(memory=latency, bandwidth=bandwidth)

    def alone(section: Section, counted: int) -> Alone:
        return Alone(estimate(section.code, program.config, costs).total, counted)

    parts = layer_sections(compiled)
    sections = [program.setup, program.main, *(part.section for part in parts)]
    counted = _count(compiled, parts, {"latency": latency, "bandwidth": bandwidth})
    setup, whole, *found = map(alone, sections, counted)
    layers = [Alone(0, 0)] * len(program.layers)
    for part, cycles in zip(parts, found, strict=True):
        layers[part.layer] = Alone(*map(sum, zip(layers[part.layer], cycles, strict=True)))
    return Measured(tuple(layers), whole, setup)


def _count(compiled: Compiled, parts: Sequence[LayerSection], memory: dict[str, Any]) -> list[int]:
    """Return the cycles of ``setup``, ``main`` and the sections, on the RTL."""
    program, last = compiled.program, parts[-1].section
    rng = np.random.default_rng(0)
    x = [rng.integers(-128, 128, (program.batch, *p.shape), np.int8) for p in program.inputs]
    device = open_device("rtl", program.config, last.address + len(last.code), **memory)
    with Session(program, device) as session:
        session.run(x)
        cycles = [session.statistics.setup_cycles or 0, session.statistics.cycles or 0]
        cycles += _run_sections(device, program, parts)
        outputs = _outputs(device, program)
    with open_session(program) as session:
        session.run(x)
        if _outputs(session.device, program) != outputs:
            raise DeviceError("measure: layers one at a time give other outputs than the model")
    return cycles


def _outputs(device: Device, program: Program) -> list[bytes]:
    """Return what a run has left in external memory."""
    return [
        device.read(port.address, program.batch * port.bytes_per_item) for port in program.outputs
    ]


def _run_sections(device: Device, program: Program, sections: Sequence[LayerSection]) -> list[int]:
    """Run sections in order, on the inputs that are there; return the cycles of each."""
    for port in program.outputs:
        device.write(port.address, bytes(program.batch * port.bytes_per_item))
    for part in sections:
        device.write(part.section.address, part.section.code)
    counted = []
    for part in tqdm(sections, unit="section", delay=1, file=sys.stderr, disable=None):
        result = device.run(part.section.address, part.section.count)
        if result.error is not None:
            code, unit, index = result.error
            what = disassemble(part.section.instruction(index))
            name = program.layers[part.layer].name
            raise DeviceError(f"{code.name} in {unit.name}: layer {name!r} alone, {what}")
        assert result.cycles is not None
        counted.append(result.cycles)
    return counted
