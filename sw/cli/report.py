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
from celosia.sw.compiler.report import Measured
from celosia.sw.compiler.report_text import as_text
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import load
from celosia.sw.operators.page import as_markdown
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path
from celosia.sw.workers.spread import Workers, spread

if TYPE_CHECKING:
    from celosia.sw.profile.estimates import Estimates


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("report", "list the cycles and bytes of each layer of models", run)
    made.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help=".tflite or .onnx file, or a shipped model; several",
    )
    made.add_argument(
        "--operators", action="store_true", help="list the operators there are, and their limits"
    )
    add_signature(made)
    add_batch(made, 1, "inputs of one run (1)")
    made.add_argument("--csv", type=Path, metavar="FILE", help="also write a table as CSV")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write a table as JSON")
    made.add_argument(
        "--measure", action="store_true", help="count the cycles of each layer on the RTL, too"
    )
    add_shape(made)
    add_workers(made)
    add_machine(made)


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
    if arguments.csv and len(arguments.models) > 1:
        raise InputError(f"--csv: wanted one MODEL for it, got {len(arguments.models)}")
    models = [model_path(name) for name in arguments.models]
    writable(arguments.csv, arguments.json, sources=tuple(models))
    found = _estimates(arguments, models, workers)
    contents = {}
    if arguments.csv:
        contents[arguments.csv] = report.as_csv(found[0].rows).encode()
    if arguments.json:
        figures = [each.as_dict() for each in found]
        contents[arguments.json] = report.as_json(
            figures if len(found) > 1 else figures[0]
        ).encode()
    write_atomically(contents)
    print("\n".join(map(_text, found)), end="")


def _estimates(
    arguments: argparse.Namespace, models: list[Path], workers: Workers
) -> list["Estimates"]:
    """Return the costs of each model, with counts of the RTL if wanted."""
    from celosia.sw.profile.estimates import estimates

    memory = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    graphs = [load(path, shapes_of(arguments), arguments.signature) for path in models]
    for graph in graphs:
        report_choices(graph, arguments.signature)
    compiled = [compile_steps(graph, arguments.preset, arguments.batch) for graph in graphs]
    measured: list[Measured | None] = [None] * len(models)
    if arguments.measure:
        measured = _measured(compiled, memory, workers)
    clock = arguments.board.clock_hz if arguments.board else None
    return [
        estimates(each, **memory, clock_hz=clock, measured=counts)
        for each, counts in zip(compiled, measured, strict=True)
    ]


def _measured(
    compiled: list[Compiled], memory: dict[str, Any], workers: Workers
) -> list[Measured | None]:
    """Return counts of the RTL; each model is a shard."""
    from celosia.sw.measure import measure

    one = len(compiled) == 1 and not workers.several
    key = repr(memory).encode() + b"".join(each.program.to_bytes() for each in compiled)
    results = spread(partial(measure, **memory, progress=one), compiled, workers, key=key)
    bar = tqdm(results, total=len(compiled), unit="model", delay=1, disable=True if one else None)
    return list(bar)


def _text(found: "Estimates") -> str:
    return as_text(
        found.compiled.program,
        found.rows,
        found.setup_cycles,
        found.measured,
        peak=found.peak,
        again=found.again,
    )
