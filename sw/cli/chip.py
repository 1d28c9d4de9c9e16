"""``celosia synth --liberty``: a core in standard cells."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from celosia.sw.cli import inputs
from celosia.sw.cli.arguments import add_files, number
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.files import directory_of, json_bytes, writable, write_atomically
from celosia.sw.frontend.source import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import InputError
from celosia.sw.shipped import model_path

#: Options without effect unless another one is given.
_NEEDED = {
    "macro": "liberty",
    "bit-area": "liberty",
    "bit-energy": "liberty",
    "model": "liberty",
    "input": "model",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    chip = parser.add_argument_group("standard cells instead of an FPGA")
    text = "library of cells, .lib or .lib.gz: area, longest path, energy"
    chip.add_argument("--liberty", type=Path, metavar="FILE", help=text)
    text = "library with macros of memories, any number of times"
    chip.add_argument("--macro", type=Path, action="append", default=[], metavar="FILE", help=text)
    text = "area of a bit of memory (that of the smallest NAND)"
    chip.add_argument("--bit-area", type=number, metavar="UM2", help=text)
    text = "energy of a bit read or written (100 inputs of a NAND)"
    chip.add_argument("--bit-energy", type=number, metavar="FJ", help=text)
    text = "energy of one inference of this model, on the simulated netlist"
    chip.add_argument("--model", metavar="MODEL", help=text)
    add_files(chip, "--input", "[NAME=]FILE", "its input, the first sample of a file (random)")
    inputs.add_conversions(parser)


def require_effect(arguments: argparse.Namespace) -> None:
    """Refuse options that have no effect."""
    for option, needed in _NEEDED.items():
        value = getattr(arguments, option.replace("-", "_"))
        if value not in (None, []) and not getattr(arguments, needed):
            raise InputError(f"synth: --{option} wants --{needed}, got none")
    if arguments.clock and arguments.liberty and not arguments.model:
        raise InputError("synth: --clock with --liberty wants --model, got none")


def run(arguments: argparse.Namespace, report: Callable[[str], None]) -> None:
    """Synthesise a core to the cells of a Liberty file; print area, longest path and energy."""
    from celosia.sw.chip.report import as_text, figures_of

    writable(arguments.json)
    arguments.directory = directory_of(arguments.directory)
    figures = figures_of(arguments, report, *_inference(arguments))
    if arguments.json:
        write_atomically({arguments.json: json_bytes(figures)})
    print(f"{figures['preset']} in {figures['library']}, {figures['volts']:g} V, without wires")
    print("\n".join(as_text(figures)))


def _inference(arguments: argparse.Namespace) -> tuple[Program | None, list[np.ndarray]]:
    """Return the program of one inference, and its inputs if files have them."""
    if not arguments.model:
        return None, []
    graph = load(model_path(arguments.model))
    program = compile_graph(graph, arguments.preset, 1)
    if not arguments.input:
        return program, []
    samples = inputs.gather("--input", arguments.input, inputs.ends_of(graph)[0])
    first = {name: data.first(1) for name, data in samples.items()}
    return program, inputs.prepare(first, program.inputs, arguments)
