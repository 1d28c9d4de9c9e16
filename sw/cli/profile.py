"""``celosia profile``: a run in pictures, estimated."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import Commands, add_batch, add_machine, add_output
from celosia.sw.compiler.report import as_json
from celosia.sw.files import writable, write_atomically
from celosia.sw.shipped import model_path


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("profile", "draw the time of a model: layers, units, memory", run)
    made.add_argument("model", metavar="MODEL", help=".tflite or .onnx file, or a shipped model")
    add_output(made, "page to write, HTML; MODEL.html where no file is named")
    made.add_argument(
        "--trace", type=Path, metavar="FILE", help="write a trace for Perfetto, as JSON"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    add_batch(made, 1, "inputs of one run (1)")
    add_machine(made)


def run(arguments: argparse.Namespace) -> None:
    """Write the pictures of one batch."""
    from celosia.sw.profile import profile
    from celosia.sw.profile.page import as_html
    from celosia.sw.profile.trace import as_trace

    model = model_path(arguments.model)
    page = arguments.output
    if not (page or arguments.trace or arguments.json):
        page = Path(f"{model.stem}.html")
    files = [file for file in (page, arguments.trace, arguments.json) if file]
    writable(*files, sources=(model,))
    found = profile(
        model,
        config=arguments.preset,
        batch=arguments.batch,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
        clock_hz=arguments.board.clock_hz if arguments.board else None,
    )
    contents: dict[str | Path, bytes] = {}
    if page:
        contents[page] = as_html(found).encode()
    if arguments.trace:
        contents[arguments.trace] = as_trace(found).encode()
    if arguments.json:
        contents[arguments.json] = as_json(found.to_dict()).encode()
    write_atomically(contents)
    total = found.total
    print(
        f"{found.program.name} on {found.program.config.name}, batch {found.program.batch}: "
        f"{total.cycles:,} cycles, bound {total.bound:,}, "
        f"{total.utilisation:.1%} of the multipliers in use; written: {', '.join(map(str, files))}"
    )
