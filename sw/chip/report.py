"""``celosia synth --liberty``: the figures of a core of standard cells as text and as JSON."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.chip.energy import Energy, Memories, energy_of
from celosia.sw.chip.liberty import Library
from celosia.sw.chip.synthesis import MissingError, Netlist
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import InputError, random_samples

#: Operations of a multiplication with its addition.
_OPERATIONS = 2
_HEADS = ("block", "cells", "flip-flops", "mm2", "memory bits", "mm2 of memories")


def library_of(path: Path) -> Library:
    """Return a library; raises InputError if the file is none."""
    try:
        return Library(path)
    except (OSError, ValueError) as error:
        text = str(error) if isinstance(error, ValueError) else f"{path}: {error.strerror}"
        raise InputError(text) from None


def netlist_of(
    config: Config, library: Library, directory: Path, report: Callable[[str], None]
) -> Netlist:
    """Return the netlist of a core whose products are all multipliers of gates."""
    from celosia.hw.verilog.build import TOP
    from celosia.sim.rtl.converted import core_verilog
    from celosia.sim.rtl.core import fast

    report(f"{config.name}: Verilog")
    return Netlist(core_verilog(fast(config)), TOP, library, directory, report)


def areas(netlist: Netlist, memories: Memories) -> dict[str, dict[str, float]]:
    """Return cells, flip-flops, bits and areas in mm² of each block, and of all."""
    rows = {}
    for name, block in netlist.blocks().items():
        memory = sum(memories.area(*shape) for shape in block.memories)
        figures = (block.cells, block.registers, block.area * 1e-6, block.bits, memory * 1e-6)
        rows[name] = dict(zip(_HEADS[1:], figures, strict=True))
    rows["total"] = {head: sum(row[head] for row in rows.values()) for head in _HEADS[1:]}
    return rows


def inference(
    netlist: Netlist,
    program: Program,
    samples: Sequence[np.ndarray],
    memories: Memories,
    mhz: float,
) -> dict[str, Any]:
    """Return cycles, operations and energies of one inference; random inputs without samples."""
    random = np.random.default_rng(1)
    inputs = samples or [random_samples(random, port, 1) for port in program.inputs]
    cycles, blocks = energy_of(netlist, program, inputs, memories, 1e3 / mhz)
    macs, total = sum(layer.macs for layer in program.layers), sum(e.total for e in blocks.values())
    return {
        "cycles": cycles,
        "macs": macs,
        "megahertz": mhz,
        "microjoules": total * 1e-3,
        "milliwatts": total * mhz / cycles,
        "tops_per_watt": _OPERATIONS * macs / total * 1e-3,
        "nanojoules": {name: energy._asdict() for name, energy in blocks.items()},
    }


def as_text(figures: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the printed figures."""
    yield "{:<16} {:>9} {:>10} {:>9} {:>12} {:>15}".format(*_HEADS)
    for name, row in figures["blocks"].items():
        cells, registers, area, bits, memory = row.values()
        yield f"{name:<16} {cells:>9,} {registers:>10,} {area:>9.4f} {bits:>12,} {memory:>15.4f}"
    if path := figures["longest_path"]:
        clock = 1e3 / path["nanoseconds"]
        ends = f"{path['from']} -> {path['to']}"
        yield f"longest path     {path['nanoseconds']:.2f} ns, {clock:.0f} MHz: {ends}"
    if not (result := figures.get("inference")):
        return
    yield ""
    yield "{:<16} {:>12} {:>12} {:>12} {:>12}".format("energy, nJ", *Energy._fields)
    for name, row in result["nanojoules"].items():
        yield f"{name:<16} " + " ".join(f"{figure:>12,.1f}" for figure in row.values())
    yield (
        f"{result['cycles']:,} cycles at {result['megahertz']:.0f} MHz: "
        f"{result['microjoules']:.2f} uJ, {result['milliwatts']:.1f} mW, "
        f"{result['tops_per_watt']:.3f} TOPS/W"
    )
    yield "Not counted: wires, clock tree, glitches, pads, external memory."


def figures_of(
    arguments: argparse.Namespace,
    report: Callable[[str], None],
    program: Program | None,
    samples: Sequence[np.ndarray],
) -> dict[str, Any]:
    """Return the figures of ``celosia synth --liberty``; see ``inference`` for ``samples``."""
    config, library = arguments.preset, library_of(arguments.liberty)
    macros = [library_of(path) for path in arguments.macro]
    memories = Memories(
        library, area=arguments.bit_area, energy=arguments.bit_energy, macros=macros
    )
    netlist = netlist_of(config, library, arguments.directory, report)
    figures: dict[str, Any] = {"preset": config.name, "library": library.group.names[0]}
    figures |= {"volts": library.volts, "blocks": areas(netlist, memories), "longest_path": None}
    try:
        nanoseconds, start, end = netlist.longest_path()
        figures["longest_path"] = {"nanoseconds": nanoseconds, "from": start, "to": end}
    except MissingError as error:
        report(f"longest path not measured: {error}")
    if program is not None:
        path = figures["longest_path"]
        clock = arguments.clock or (1e3 / path["nanoseconds"] if path else None)
        if clock is None:
            raise InputError("--clock: wanted MHz for the leakage, since no path was measured")
        figures["inference"] = inference(netlist, program, samples, memories, clock)
    return figures
