"""``celosia report``: cycles, bytes and limits of each layer of a model."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import Commands, add_batch, add_machine
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.report_text import as_text
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import load
from celosia.sw.operators.page import as_markdown
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("report", "list the cycles and bytes of each layer of a model", run)
    made.add_argument("model", nargs="?", metavar="MODEL", help=".tflite file, or a shipped model")
    made.add_argument(
        "--operators", action="store_true", help="list the operators there are, and their limits"
    )
    add_batch(made, 1, "inputs of one run (1)")
    made.add_argument("--csv", type=Path, metavar="FILE", help="also write a table as CSV")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write a table as JSON")
    made.add_argument(
        "--measure", action="store_true", help="count the cycles of each layer on the RTL, too"
    )
    add_machine(made)


def run(arguments: argparse.Namespace) -> None:
    """Print the costs of each layer."""
    from celosia.sw.measure import measure
    from celosia.sw.profile.estimates import estimates

    if (arguments.model is None) != arguments.operators:
        raise InputError("report: wanted a MODEL or --operators")
    if arguments.operators:
        print(as_markdown(), end="")
        return
    model = model_path(arguments.model)
    writable(arguments.csv, arguments.json, sources=(model,))
    memory = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    compiled = compile_steps(load(model), arguments.preset, arguments.batch)
    found = estimates(
        compiled,
        **memory,
        clock_hz=arguments.board.clock_hz if arguments.board else None,
        measured=measure(compiled, **memory) if arguments.measure else None,
    )
    contents = {}
    if arguments.csv:
        contents[arguments.csv] = report.as_csv(found.rows).encode()
    if arguments.json:
        contents[arguments.json] = report.as_json(found.as_dict()).encode()
    write_atomically(contents)
    text = as_text(
        compiled.program,
        found.rows,
        found.setup_cycles,
        found.measured,
        peak=found.peak,
        again=found.again,
    )
    print(text, end="")
