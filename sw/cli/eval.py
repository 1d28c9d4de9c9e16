"""``celosia eval``: accuracy of a model on a data set."""

import argparse
import json
from pathlib import Path

from celosia.sw import data
from celosia.sw.cli.arguments import Commands, add_device, add_machine, whole
from celosia.sw.cli.run import open_session
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.data import DATASETS
from celosia.sw.evaluate import draw, evaluate, inputs_of, summary
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.tflite import load

__all__ = ["add_parsers", "run"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("eval", "measure the accuracy of a model on a data set", run)
    made.add_argument("model", type=Path, metavar="MODEL", help=".tflite file")
    made.add_argument("--dataset", choices=DATASETS, required=True, help="its test images")
    add_device(made, "machine")
    made.add_argument("--batch", type=whole, default=16, metavar="N", help="images of one run (16)")
    made.add_argument("--limit", type=whole, metavar="N", help="the first N images alone")
    made.add_argument(
        "--png", type=Path, metavar="F", help="confusion matrix to draw (MODEL_confusion.png)"
    )
    made.add_argument("--stats", type=Path, metavar="S.json", help="also write all figures")
    add_machine(made)


def run(arguments: argparse.Namespace) -> None:
    """Say how often a model is right on a data set, and draw where it is wrong."""
    model, config, device = arguments.model, arguments.preset, arguments.device
    picture = arguments.png or Path(f"{model.stem}_confusion.png")
    writable(picture, arguments.stats, sources=(model,))
    graph = load(model)
    images, labels = (part[: arguments.limit] for part in data.load(arguments.dataset))
    program = compile_graph(graph, config, min(arguments.batch, len(images)))
    x = inputs_of(program, arguments.dataset, images)
    with open_session(program, config, device, arguments) as session:
        found = evaluate(session, arguments.dataset, x, labels, device=device)
    contents = {picture: draw(found)}
    if arguments.stats:
        contents[arguments.stats] = (json.dumps(found.as_dict(), indent=2) + "\n").encode()
    write_atomically(contents)
    for name, text in {**summary(found), "picture": str(picture)}.items():
        print(f"{name:<24} {text}")
