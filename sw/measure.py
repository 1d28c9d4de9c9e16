"""Cycles of each layer, counted by the RTL: a program run one layer at a time."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from celosia.hw.arch.isa import disassemble
from celosia.sw.compiler.compiled import Compiled, LayerSection, layer_sections
from celosia.sw.compiler.report import Alone, Measured
from celosia.sw.driver.device import Device, DeviceError
from celosia.sw.ir.parts import Section
from celosia.sw.ir.program import Program
from celosia.sw.runtime import backends
from celosia.sw.runtime.arrays import random_samples
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session


def measure(
    compiled: Compiled, *, latency: int = 32, bandwidth: float = 1.0, progress: bool = True
) -> Measured:
    """Run a program on the RTL, whole and one layer at a time; return the cycles counted.

    The inputs are random: cycles do not depend on them.

    - ``latency``: cycles from a request to external memory to its first response.
    - ``bandwidth``: beats of external memory per cycle, above 0 up to 2.
    - ``progress``: whether to show a bar on stderr, when that is a terminal and it takes long.

    Raises DeviceError if there is no simulator, the core stops with an error, or the layers one at
    a time leave other outputs than the machine model.
    """
    from celosia.sim.timing.cycles import COSTS, estimate

    program = compiled.program
    costs = COSTS._replace(memory=latency, bandwidth=bandwidth)

    def alone(section: Section, counted: int) -> Alone:
        return Alone(estimate(section.code, program.config, costs).total, counted)

    by_part = [layer_sections(compiled, number) for number in range(len(program.parts))]
    counted = _count(compiled, by_part, {"latency": latency, "bandwidth": bandwidth}, progress)

    def together(sections: Iterable[Section]) -> Alone:
        parts = (alone(section, counted[section]) for section in sections)
        return Alone(*map(sum, zip((0, 0), *parts, strict=True)))

    of_layer: dict[int, list[Section]] = defaultdict(list)
    for part, cut in zip(program.parts, by_part, strict=True):
        for layer in cut:
            of_layer[layer.layer] += [layer.section] * part.items
    layers = (together(of_layer[number]) for number in range(len(program.layers)))
    return Measured(tuple(layers), together(program.per_batch), together(program.once))


def _count(
    compiled: Compiled,
    by_part: Sequence[Sequence[LayerSection]],
    memory: dict[str, Any],
    progress: bool,
) -> dict[Section, int]:
    """Return the cycles of each section of a program and of each of its layers, on the RTL."""
    program = compiled.program
    ends = [cut[-1].section.end for cut in by_part]
    rng = np.random.default_rng(0)
    x = [random_samples(rng, port, program.batch) for port in program.inputs]
    counted = {}
    device = backends.open_device(
        "rtl", program.config, max([program.memory_bytes, *ends]), **memory
    )
    with Session(program, device) as session:
        session.run(x)
        outputs = _outputs(device, program)
        for section in program.constants:
            counted[section] = _cycles(device, program, section)
        for part, cut in zip(program.parts, by_part, strict=True):
            for section in (*part.setups, *part.mains):
                counted[section] = _cycles(device, program, section)
            # Cleared, so that the outputs compared below come from the layers.
            for port in part.outputs:
                device.write(port.address, bytes(program.batch * port.bytes_per_item))
            for layer in cut:
                device.write(layer.section.address, layer.section.code)
            hidden = None if progress else True
            for layer in tqdm(cut, unit="section", delay=1, file=sys.stderr, disable=hidden):
                counted[layer.section] = _cycles(device, program, layer.section)
        alone = _outputs(device, program)
    device = MachineDevice(program.config, program.memory_bytes)
    with Session(program, device) as session:
        session.run(x)
        if not _outputs(device, program) == outputs == alone:
            raise DeviceError("measure: layers one at a time give other outputs than the model")
    return counted


def _outputs(device: Device, program: Program) -> list[bytes]:
    """Return the outputs that a run left in external memory."""
    return [
        device.read(port.address, program.batch * port.bytes_per_item)
        for part in program.parts
        for port in part.outputs
    ]


def _cycles(device: Device, program: Program, section: Section) -> int:
    """Run a section on the inputs in external memory; return its cycles."""
    result = device.run(section.address, section.words)
    if result.error is not None:
        code, unit, index = result.error
        text = disassemble(section.instructions[index])
        number = section.layers[index]
        name = program.layers[number].name if number >= 0 else "none"
        raise DeviceError(f"{code.name} in {unit.name}: layer {name!r} alone, {text}")
    assert result.cycles is not None
    return result.cycles
