"""``celosia report``: cycles, bytes and limits of each layer of a model."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_machine,
    add_shape,
    add_signature,
    add_workers,
    report_choices,
    shapes_of,
    workers_of,
)
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import Compiled
from celosia.sw.compiler.node_data import node_data
from celosia.sw.compiler.report import Measured
from celosia.sw.compiler.report_text import as_text
from celosia.sw.files import directory_of, json_bytes, writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.ir.graph import Graph
from celosia.sw.operators.page import as_markdown
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path
from celosia.sw.workers.spread import Workers, spread

if TYPE_CHECKING:
    from celosia.sw.profile.estimates import Estimates


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("report", "list the cycles and bytes of each layer of models", run)
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help=".tflite or .onnx file, or a shipped model; several",
    )
    parser.add_argument(
        "--operators", action="store_true", help="list the operators there are, and their limits"
    )
    add_signature(parser)
    add_batch(parser, 1, "inputs of one run (1)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write a table as CSV")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a table as JSON")
    parser.add_argument(
        "--model-explorer",
        type=Path,
        metavar="FOLDER",
        help="also write cycles, utilisation and device of each operator for Model Explorer",
    )
    parser.add_argument(
        "--measure", action="store_true", help="count the cycles of each layer on the RTL, too"
    )
    add_shape(parser)
    add_workers(parser)
    add_machine(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the costs of each layer of each model."""
    if bool(arguments.models) == arguments.operators:
        raise InputError("report: wanted a MODEL or --operators")
    if arguments.operators:
        print(as_markdown(), end="")
        return
    workers = workers_of(arguments)
    if workers != Workers() and not arguments.measure:
        raise InputError("--workers, --scheduler, --resume: wanted --measure for them")
    for option in ("csv", "model_explorer"):
        if getattr(arguments, option) and len(arguments.models) > 1:
            name = option.replace("_", "-")
            raise InputError(f"--{name}: wanted one MODEL for it, got {len(arguments.models)}")
    models = [model_path(name) for name in arguments.models]
    writable(arguments.csv, arguments.json, sources=files_of(*models))
    graphs = [load(path, shapes_of(arguments), arguments.signature) for path in models]
    results = _estimates(arguments, graphs, workers)
    contents = {}
    if arguments.csv:
        contents[arguments.csv] = report.as_csv(results[0].rows).encode()
    if arguments.json:
        figures = [result.as_dict() for result in results]
        contents[arguments.json] = json_bytes(figures if len(results) > 1 else figures[0])
    if arguments.model_explorer:
        directory_of(arguments.model_explorer)
        for name, data in node_data(graphs[0], results[0].rows).items():
            contents[arguments.model_explorer / f"{name}.json"] = json_bytes(data)
    write_atomically(contents)
    print("\n".join(map(_text, results)), end="")


def _estimates(
    arguments: argparse.Namespace, graphs: list[Graph], workers: Workers
) -> list["Estimates"]:
    """Return the costs of each model, with counts of the RTL if wanted."""
    from celosia.sw.profile.estimates import estimates

    memory = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    for graph in graphs:
        report_choices(graph, arguments.signature)
    compiled = [compile_steps(graph, arguments.preset, arguments.batch) for graph in graphs]
    measured: list[Measured | None] = [None] * len(graphs)
    if arguments.measure:
        measured = _measured(compiled, memory, workers)
    clock = arguments.board.clock_hz if arguments.board else None
    return [
        estimates(steps, **memory, clock_hz=clock, measured=counts)
        for steps, counts in zip(compiled, measured, strict=True)
    ]


def _measured(
    compiled: list[Compiled], memory: dict[str, Any], workers: Workers
) -> list[Measured | None]:
    """Return counts of the RTL; each model is a shard."""
    from celosia.sw.measure import measure

    one = len(compiled) == 1 and not workers.several
    key = repr(memory).encode() + b"".join(steps.program.to_bytes() for steps in compiled)
    results = spread(partial(measure, **memory, progress=one), compiled, workers, key=key)
    bar = tqdm(results, total=len(compiled), unit="model", delay=1, disable=True if one else None)
    return list(bar)


def _text(result: "Estimates") -> str:
    return as_text(
        result.compiled.program,
        result.rows,
        result.setup_cycles,
        result.measured,
        peak=result.peak,
        again=result.again,
    )
