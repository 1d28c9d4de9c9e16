"""``celosia compile``: a model to a program."""

import argparse

from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_output,
    add_preset,
    add_shape,
    add_signature,
    report_choices,
    shapes_of,
)
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.program import c_name, c_program, hex_program
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.shipped import model_path


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("compile", "compile a model to a program", run)
    parser.add_argument("model", metavar="MODEL", help=".tflite or .onnx file, or a shipped model")
    text = "program to write; .c: as data for the driver in C, .hex: for Verilog's $readmemh"
    add_output(parser, text, required=True)
    add_signature(parser)
    add_preset(parser)
    add_shape(parser)
    add_batch(parser, 1, "inputs of one run (1)")


def run(arguments: argparse.Namespace) -> None:
    """Compile a model to a program."""
    model, path = model_path(arguments.model), arguments.output
    writable(path, sources=files_of(model))
    if path.suffix == ".c":
        c_name(path.stem)
    graph = load(model, shapes_of(arguments), arguments.signature)
    report_choices(graph, arguments.signature)
    program = compile_graph(graph, arguments.preset, arguments.batch)
    if path.suffix == ".c":
        write_atomically({path: c_program(program, path.stem).encode()})
    elif path.suffix == ".hex":
        write_atomically({path: hex_program(program).encode()})
    else:
        program.save(path)
    size = f"{program.memory_bytes:,} bytes of memory"
    print(f"{path}: {program.config.name}, batch {program.batch}, {size}")
