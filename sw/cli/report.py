"""``celosia report``: cycles, bytes and limits of each layer of a model."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import Commands, add_batch, add_machine
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import load
from celosia.sw.operators.page import as_markdown
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path

__all__ = ["add_parsers", "run"]


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
    """Show what each layer takes."""
    from celosia.sim.cycles import COSTS, estimate
    from celosia.sim.footprint import Memory, reach
    from celosia.sw.measure import measure

    if (arguments.model is None) != arguments.operators:
        raise InputError("report: wanted a MODEL or --operators")
    if arguments.operators:
        print(as_markdown(), end="")
        return
    model = model_path(arguments.model)
    writable(arguments.csv, arguments.json, sources=(model,))
    memory = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    costs = COSTS._replace(memory=arguments.latency, bandwidth=arguments.bandwidth)
    compiled = compile_steps(load(model), arguments.preset, arguments.batch)
    program = compiled.program
    found = {s.address: estimate(s.code, program.config, costs) for _, s in program.sections}
    setup = sum(found[section.address].total for section in program.once)
    mains = {part.main.address for part in program.parts}
    again = sum(found[s.address].total for s in program.each if s.address not in mains)
    instructions = [i for part in program.parts for i in part.main.instructions]
    peak = reach(instructions, Memory.UNIFIED, program.config)
    measured = measure(compiled, **memory) if arguments.measure else None
    finishes = [c.finish for s in program.each for c in found[s.address].instructions]
    table = report.rows(program, finishes, bounds(compiled), measured)
    contents = {}
    if arguments.csv:
        contents[arguments.csv] = report.as_csv(table).encode()
    if arguments.json:
        text = report.as_json(program, table, setup, measured, peak=peak, again=again)
        contents[arguments.json] = text.encode()
    write_atomically(contents)
    print(report.as_text(program, table, setup, measured, peak=peak, again=again), end="")
