"""``celosia quantize``: a float network to int8, and the loss of accuracy."""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.hw.arch.presets import PRESETS
from celosia.sw import data
from celosia.sw.cli import inputs
from celosia.sw.cli.arguments import Commands, add_files, add_output, add_shape, shapes_of, whole
from celosia.sw.cli.messages import Failure, Missing
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.images import labelled_pictures, pictures_of
from celosia.sw.ir.parts import Port
from celosia.sw.layers.errors import CompileError
from celosia.sw.quantize.process import Converter
from celosia.sw.quantize.sources import SOURCES, require_tools, source_of
from celosia.sw.runtime.arrays import InputError, names_of

_SAMPLES = 500
#: Kernels of accuracies: those of an .onnx file, and of a .tflite file.
_KERNELS = (
    "ONNX Runtime",
    "LiteRT's fast kernels; celosia eval has the bytes of its reference kernels",
)


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("quantize", "quantise a float network to int8", run)
    parser.epilog = "Converters are large programs: quantise files from sources that you trust."
    kinds = ", ".join(source.kind for source in SOURCES)
    parser.add_argument("model", type=Path, metavar="MODEL", help=kinds)
    kinds = ".npy, .npz, a folder of pictures, or one with a folder of them for each class"
    text = f"samples of ordinary content: {', '.join(data.DATASETS)}, {kinds}"
    add_files(parser, "--calibration", "[NAME=]DATA", text, required=True)
    text = f"samples to measure the accuracy on, with --labels: {kinds}"
    add_files(parser, "--test", "[NAME=]DATA", text)
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="Y.npy",
        help="classes of the samples of --test, else of --calibration: shows the accuracy lost",
    )
    parser.add_argument(
        "--limit", type=whole, metavar="N", help=f"calibrate with the first N samples ({_SAMPLES})"
    )
    inputs.add_conversions(parser)
    add_shape(parser)
    add_output(parser, "quantised model to write", required=True)


class _Data(NamedTuple):
    """Samples to calibrate with, and labelled ones."""

    samples: list[np.ndarray]
    labelled: list[np.ndarray]
    labels: np.ndarray | None
    notes: dict[str, str]


def run(arguments: argparse.Namespace) -> None:
    """Quantise a network, compare both where there are labels, and write it."""
    source = source_of(arguments.model)
    try:
        require_tools(arguments.model, source)
    except ModuleNotFoundError as error:
        raise Missing(str(error)) from None
    if arguments.output.suffix.lower() != source.result:
        raise InputError(
            f"{arguments.output}: wanted a name with {source.result}, as {source.kind}s become it"
        )
    writable(arguments.output, refused_path(arguments.output), sources=files_of(arguments.model))
    _require_data(arguments)
    if sys.stderr.isatty():
        print(f"converting {arguments.model}", file=sys.stderr)
    with Converter(arguments.model, shapes_of(arguments)) as converter:
        samples = _data(arguments, converter.ports)
        content = converter.quantized(samples.samples)
        lines = {"calibrated with": f"{len(samples.samples[0]):,} samples", **samples.notes}
        if samples.labels is not None:
            lines |= _accuracy(converter, content, samples.labelled, samples.labels)
    reason = _refusal(content)
    path = refused_path(arguments.output) if reason else arguments.output
    write_atomically({path: content})
    lines["quantised model"] = f"{path}, {len(content):,} bytes"
    for name, text in lines.items():
        print(f"{name:<24} {text}")
    if reason:
        raise Failure(f"{path}: quantised, and Celosia cannot run it: {reason}")


def refused_path(output: Path) -> Path:
    """Return the name of a quantised model that Celosia refuses; it never has the one wanted."""
    return output.with_suffix(f".refused{output.suffix}")


def _refusal(content: bytes) -> str:
    """Return the reason why no core runs a quantised model; empty if one does."""
    reason = ""
    try:
        graph = load(content)
        for config in (PRESETS["edge"], *PRESETS.values()):
            try:
                compile_graph(graph, config)
                return ""
            except CompileError as error:
                reason = reason or str(error)
    except ValueError as error:
        reason = str(error).removeprefix("model: ")
    return reason


def _require_data(arguments: argparse.Namespace) -> None:
    """Refuse data that is not there, before a conversion that takes a minute."""
    for text in (*arguments.calibration, *arguments.test):
        path = Path(text) if Path(text).exists() else Path(text.rpartition("=")[2])
        if text in data.DATASETS:
            continue
        if path.is_dir():
            if labelled_pictures(path) is None:
                pictures_of(path)
        elif not path.exists():
            raise InputError(f"{path}: no such file")
    if arguments.labels:
        inputs.read_array(arguments.labels)
    elif arguments.test and not _by_class(arguments.test):
        raise InputError("--test: wanted --labels for it, or a folder with a folder for each class")


def _by_class(texts: list[str]) -> tuple[list[Path], np.ndarray] | None:
    """Return pictures and their classes, of all classes in any first part; None without them."""
    pictures_of_classes = labelled_pictures(Path(texts[0])) if Path(texts[0]).is_dir() else None
    if len(texts) != 1 or pictures_of_classes is None:
        return None
    order = np.random.default_rng(0).permutation(len(pictures_of_classes[0]))
    pictures = [pictures_of_classes[0][number] for number in order]
    return [path for path, _ in pictures], np.array([label for _, label in pictures])


def _data(arguments: argparse.Namespace, ports: list[Port]) -> _Data:
    """Return the samples that the arguments name, in the layout of the network."""
    limit = arguments.limit or _SAMPLES
    if arguments.calibration[0] in data.DATASETS:
        return _of_dataset(arguments, ports, limit)
    names = names_of(ports)
    calibration, labels = _labelled_inputs("--calibration", arguments.calibration, names)
    tested = calibration
    first = {name: one.first(limit) for name, one in calibration.items()}
    if arguments.test:
        tested, labels = _labelled_inputs("--test", arguments.test, names)
    if arguments.labels:
        labels = inputs.read_labels(arguments.labels, inputs.count_of(tested))
    if labels is None:
        return _Data(inputs.prepare(first, ports, arguments), [], None, {})
    labelled = inputs.prepare(tested, ports, arguments)
    if arguments.test:
        return _Data(inputs.prepare(first, ports, arguments), labelled, labels, {})
    samples, notes = [array[:limit] for array in labelled], {}
    if len(samples[0]) == len(labels):
        notes["note"] = "accuracies are on the samples calibrated with"
    return _Data(samples, labelled, labels, notes)


def _labelled_inputs(
    option: str, texts: list[str], names: inputs.Names
) -> tuple[dict[str, inputs.InputData], np.ndarray | None]:
    """Return the samples of an option, and their labels if folders give them."""
    labelled = _by_class(texts) if len(names) == 1 else None
    if labelled is None:
        return inputs.gather(option, texts, names), None
    return {names[0]: inputs.InputData(texts[0], labelled[0])}, labelled[1]


def _of_dataset(arguments: argparse.Namespace, ports: list[Port], limit: int) -> _Data:
    """Return training images to calibrate with, and all test images."""
    name = arguments.calibration[0]
    if len(arguments.calibration) > 1 or len(ports) != 1 or arguments.labels:
        raise InputError(f"--calibration {name}: wanted a network of one input, and no --labels")
    images, labels, note = data.find(name)
    notes = {"note": note} if note else {}
    try:
        chosen = data.find(name, "train").images
    except FileNotFoundError:
        chosen = images
        notes["calibration"] = "with test images: no training images found"
    both = [_scaled(pictures, ports[0], arguments) for pictures in (chosen[:limit], images)]
    return _Data([both[0]], [both[1]], labels, notes)


def _scaled(images: np.ndarray, port: Port, arguments: argparse.Namespace) -> np.ndarray:
    """Return pixels as numbers from 0 to 1, or of the range requested, in the network's layout."""
    low, high = arguments.pixels if isinstance(arguments.pixels, tuple) else (0.0, 1.0)
    if port.elements != images[0].size:
        raise InputError(f"input {port.name!r}: wanted 28x28 pixels, got {list(port.shape)}")
    pixels = images.astype(np.float32) * np.float32((high - low) / 255) + np.float32(low)
    return pixels.reshape(-1, *port.shape)


def _accuracy(
    converter: Converter, content: bytes, samples: list[np.ndarray], labels: np.ndarray
) -> dict[str, str]:
    """Return how often float and int8 are right, a text for each figure."""
    shares = []
    for model in (None, content):
        outputs = converter.outputs(model, samples)
        scores = outputs.shape[1]
        if labels.min() < 0 or labels.max() >= scores:
            raise InputError(
                f"labels: wanted 0 to {scores - 1}, as the network gives {scores} scores, "
                f"got {labels.min()} to {labels.max()}"
            )
        shares.append(100 * float(np.mean(outputs.argmax(axis=1) == labels)))
    return {
        "float accuracy": f"{shares[0]:.2f} % of {len(labels):,} samples",
        "int8 accuracy": f"{shares[1]:.2f} %, {_change(shares[1] - shares[0])}",
        "measured with": _KERNELS[content[4:8] == b"TFL3"],
    }


def _change(points: float) -> str:
    """Return a change of the accuracy as text."""
    return f"{abs(points):.2f} points {'gained' if round(points, 2) > 0 else 'lost'}"
