"""``celosia eval``: accuracy of a model on a data set, or on labelled data of the user."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from celosia.sw import data
from celosia.sw.cli import inputs
from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_cores,
    add_device,
    add_files,
    add_machine,
    add_shape,
    add_signature,
    add_workers,
    report_choices,
    shapes_of,
    whole,
)
from celosia.sw.cli.labelled import LabelledInputs, labelled_inputs
from celosia.sw.cli.run import carried_out, compiled
from celosia.sw.evaluate import (
    Evaluation,
    Labelled,
    classes_of,
    confusion_matrix,
    draw,
    guesses_of,
    inputs_of,
    summary,
)
from celosia.sw.files import json_bytes, writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.ir.graph import short_name
from celosia.sw.ir.names import Names
from celosia.sw.ir.program import Program
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path

#: Samples of one run, at most, unless the option gives them.
_BATCH = 16


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("eval", "measure the accuracy of a model on labelled data", run)
    parser.add_argument("model", metavar="MODEL", help=".tflite or .onnx file, or a shipped model")
    parser.add_argument("--dataset", choices=data.DATASETS, help="its test images")
    text = ".npy, .npz, or a folder with a folder of pictures for each class"
    add_files(parser, "--data", "[NAME=]DATA", text)
    parser.add_argument(
        "--labels", type=Path, metavar="Y.npy", help="class of each sample of --data"
    )
    parser.add_argument("--output", metavar="NAME", help="the output with the scores, of several")
    inputs.add_conversions(parser)
    add_signature(parser)
    add_device(parser, "machine")
    add_batch(parser, None, f"samples of one run (up to {_BATCH})")
    add_cores(parser)
    add_shape(parser)
    add_workers(parser)
    parser.add_argument("--limit", type=whole, metavar="N", help="the first N samples alone")
    parser.add_argument("--png", type=Path, metavar="F", help="confusion matrix to draw ")
    parser.add_argument("--stats", type=Path, metavar="S.json", help="also write all figures")
    add_machine(parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure how often a model is right, and draw where it is wrong."""
    if bool(arguments.dataset) == bool(arguments.data):
        raise InputError("eval: wanted either --dataset or --data")
    model = model_path(arguments.model)
    writable(arguments.png, arguments.stats, sources=files_of(model))
    graph = load(model, shapes_of(arguments), arguments.signature)
    report_choices(graph, arguments.signature)
    names, outputs = inputs.ends_of(graph)
    index = _output(arguments.output, model, outputs)
    samples = _data(arguments, model, names)
    labelled = samples.labelled
    share = -(-len(labelled.labels) // arguments.cores)
    batch = arguments.batch and min(arguments.batch, share)
    program = compiled(graph, arguments.preset, batch, min(_BATCH, share))
    port = program.outputs[index]
    try:
        classes = classes_of(port, labelled)
    except InputError as error:
        raise InputError(f"{program.name}: {error}") from None
    arrays = _arrays(arguments, samples, program)
    results, costs = carried_out(program, arrays, arguments)
    guesses = guesses_of(results[index], port, len(classes))
    evaluation = Evaluation(
        dataset=labelled.name,
        device=arguments.device,
        classes=classes,
        confusion=confusion_matrix(labelled.labels, guesses, len(classes)),
        statistics=costs,
        note=labelled.note,
    )
    contents: dict[str | Path, bytes] = {}
    if arguments.png:
        contents[arguments.png] = draw(evaluation)
    if arguments.stats:
        contents[arguments.stats] = json_bytes(evaluation.as_dict())
    write_atomically(contents)
    drawn = {"picture": str(arguments.png)} if arguments.png else {}
    for name, text in {**summary(evaluation), **drawn}.items():
        print(f"{name:<24} {text}")


def _output(name: str | None, model: Path, outputs: Sequence[str]) -> int:
    """Return the number of the output with the scores."""
    shown = ", ".join(short_name(output) for output in outputs)
    if name is None:
        if len(outputs) != 1:
            raise InputError(f"{model.name}: wanted --output with one of {shown}")
        return 0
    for known in (list(outputs), [short_name(output) for output in outputs]):
        if known.count(name) == 1:
            return known.index(name)
    raise InputError(f"{model.name}: --output: wanted one of {shown}, got {name!r}")


def _data(arguments: argparse.Namespace, model: Path, names: Names) -> LabelledInputs:
    """Return the samples and labels that the arguments name."""
    limit = arguments.limit
    if arguments.dataset:
        if arguments.labels:
            raise InputError("--labels: wanted --data for them, got --dataset")
        images, labels, note = data.find(arguments.dataset)
        classes = data.DATASETS[arguments.dataset].classes
        labelled = Labelled(
            name=arguments.dataset, labels=labels[:limit], classes=classes, note=note
        )
        return LabelledInputs(
            {names[0]: inputs.InputData(arguments.dataset, images[:limit])}, labelled
        )
    return labelled_inputs(
        "--data",
        arguments.data,
        arguments.labels,
        names,
        limit=limit,
        origin=f"{model.name}: ",
    )


def _arrays(
    arguments: argparse.Namespace, samples: LabelledInputs, program: Program
) -> list[np.ndarray]:
    """Return the samples as the program takes them."""
    if not arguments.dataset:
        return inputs.prepare(samples.contents, program.inputs, arguments)
    for name in ("pixels", "flat", "resize"):
        if getattr(arguments, name):
            raise InputError(f"--{name}: wanted --data for it, got --dataset")
    (one,) = samples.contents.values()
    assert isinstance(one.contents, np.ndarray)
    return [inputs_of(program.name, program.inputs, arguments.dataset, one.contents)]
