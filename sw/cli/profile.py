"""``celosia profile``: a run in pictures, estimated."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_machine,
    add_output,
    add_shape,
    add_signature,
    report_choices,
    shapes_of,
)
from celosia.sw.files import json_bytes, writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.shipped import model_path


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("profile", "draw the time of a model: layers, units, memory", run)
    parser.add_argument("model", metavar="MODEL", help=".tflite or .onnx file, or a shipped model")
    add_output(parser, "page to write, HTML; MODEL.html where no file is named")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write a trace for Perfetto, as JSON"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    add_signature(parser)
    add_shape(parser)
    add_batch(parser, 1, "inputs of one run (1)")
    add_machine(parser)


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
    writable(*files, sources=files_of(model))
    graph = load(model, shapes_of(arguments), arguments.signature)
    report_choices(graph, arguments.signature)
    result = profile(
        graph,
        config=arguments.preset,
        batch=arguments.batch,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
        clock_hz=arguments.board.clock_hz if arguments.board else None,
    )
    contents: dict[str | Path, bytes] = {}
    if page:
        contents[page] = as_html(result).encode()
    if arguments.trace:
        contents[arguments.trace] = as_trace(result).encode()
    if arguments.json:
        contents[arguments.json] = json_bytes(result.to_dict())
    write_atomically(contents)
    total = result.total
    print(
        f"{result.program.name} on {result.program.config.name}, batch {result.program.batch}: "
        f"{total.cycles:,} cycles, bound {total.bound:,}, "
        f"{total.utilisation:.1%} of the multipliers in use; written: {', '.join(map(str, files))}"
    )
