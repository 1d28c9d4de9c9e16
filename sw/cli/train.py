"""``celosia train``: a network trained on the core, in integers."""

import argparse
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from celosia.hw.arch.presets import preset
from celosia.sw import data
from celosia.sw.cli import inputs
from celosia.sw.cli.arguments import (
    Commands,
    add_cores,
    add_device,
    add_files,
    add_machine,
    add_output,
    add_shape,
    seeds,
    whole,
)
from celosia.sw.cli.messages import Failure
from celosia.sw.cli.training import FRESH, Training, changes, described
from celosia.sw.files import json_bytes, writable, write_atomically
from celosia.sw.frontend.source import files_of
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.graph import LOSSES
from celosia.sw.training.picture import draw
from celosia.sw.training.state import State, restore, save

_CORE = preset("edge,activation_weights=true")
_EPOCHS = 8
#: Steps after which a checkpoint is written, besides those at the end of epochs.
_CHECKPOINT_STEPS = 500


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("train", "train a network on the core, in integers", run)
    text = f"{', '.join(FRESH)}; a file of a model, float or int8; or a shipped model"
    parser.add_argument("network", metavar="MODEL", help=text)
    parser.add_argument("--dataset", choices=data.DATASETS, help="images to train with (its own)")
    text = ".npy, .npz, or a folder with a folder of pictures for each class"
    add_files(parser, "--data", "DATA", f"samples to train with: {text}")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="Y.npy",
        help="class of each sample of --data; with --loss squares also rows of real numbers",
    )
    add_files(parser, "--validation-data", "DATA", "samples to validate with (a twelfth)")
    parser.add_argument(
        "--validation-labels", type=Path, metavar="Y.npy", help="the same of --validation-data"
    )
    inputs.add_conversions(parser)
    add_shape(parser)
    parser.add_argument(
        "--train-last", type=whole, metavar="N", help="train the last N layers with weights (all)"
    )
    parser.add_argument(
        "--loss",
        choices=LOSSES,
        default=LOSSES[0],
        help="softmax cross-entropy, or squares of the errors (softmax)",
    )
    text = "change images at random: shift, flip, or shift,flip (none)"
    parser.add_argument("--augment", type=changes, metavar="A", help=text)
    parser.add_argument(
        "--random-weights", action="store_true", help="begin with random weights (the model's)"
    )
    parser.add_argument(
        "--epochs", type=whole, default=_EPOCHS, metavar="N", help=f"epochs ({_EPOCHS})"
    )
    parser.add_argument("--batch", type=whole, metavar="N", help="images of a step (32)")
    parser.add_argument("--limit", type=whole, metavar="N", help="use N training images (all)")
    parser.add_argument(
        "--seed", type=seeds, default=0, metavar="N", help="of weights, order and noise (0)"
    )
    parser.add_argument(
        "--dropout", action="store_true", help="leave out half of the hidden results of a step"
    )
    parser.add_argument(
        "--patience",
        type=whole,
        metavar="N",
        help="stop after N epochs without a better validation (never)",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    add_output(parser, "model to write (MODEL_trained.tflite)")
    parser.add_argument("--png", type=Path, metavar="F", help="curve to draw (MODEL.png)")
    parser.add_argument("--stats", type=Path, metavar="S.json", help="also write all figures")
    add_device(parser, "machine")
    add_cores(parser)
    add_machine(parser, _CORE)


class _Files(NamedTuple):
    """Files of a training."""

    model: Path
    curve: Path
    checkpoint: Path
    stats: Path | None


def run(arguments: argparse.Namespace) -> None:
    """Train a network, measure it, and write model and curve."""
    files = _files(arguments)
    training = described(arguments)
    if arguments.resume:
        settings, shapes, roles = training.settings, training.shapes, training.roles
        state = restore(files.checkpoint, settings, shapes, roles)
        training = replace(training, state=state)
    if training.note:
        print(f"{'note':<24} {training.note}")
    _train(training, arguments.epochs, files)
    _finish(training, files)


def _files(arguments: argparse.Namespace) -> _Files:
    """Return the files; refuse those that could not be written."""
    model = arguments.output or Path(f"{Path(arguments.network).stem}_trained.tflite")
    if model.suffix != ".tflite":
        raise InputError(f"--output: wanted a name with .tflite, got {model}")
    files = _Files(
        model,
        arguments.png or model.with_suffix(".png"),
        model.with_suffix(".checkpoint.npz"),
        arguments.stats,
    )
    writable(*files, sources=files_of(Path(arguments.network)))
    return files


class _Interrupt:
    """SIGINT while a network trains: the step ends first. A second one interrupts at once."""

    def __init__(self) -> None:
        self.noted = False

    def __enter__(self) -> "_Interrupt":
        self.before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: object) -> None:
        self.noted = True
        signal.signal(signal.SIGINT, self.before)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self.before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a signal."""
        if self.noted:
            raise KeyboardInterrupt


def _train(training: Training, epochs: int, files: _Files) -> None:
    """Train to the last epoch, or until validations get no better; write checkpoints."""
    trainer, state, settings = training.trainer, training.state, training.settings
    word = training.measure
    images, steps = training.training, trainer.steps(training.training)
    with trainer.opened(state, images) as device, _Interrupt() as interrupt:
        while state.epoch < epochs and not state.stale(settings.patience):
            name = f"epoch {state.epoch + 1}/{epochs}"
            shown = {"desc": name, "unit": "step", "disable": None}
            with tqdm(total=steps, initial=state.step, **shown) as bar:

                def after(state: State, count: int, bar: tqdm = bar) -> None:
                    bar.update(count)
                    if state.step % _CHECKPOINT_STEPS < count or interrupt.noted:
                        trainer.fetch(state, device)
                        save(files.checkpoint, state, settings)
                    interrupt.check()
                    if state.curve:
                        bar.set_postfix_str(f"{word} {state.curve[-1][1]:.1%}", refresh=False)

                trainer.epoch(state, device, images, after)
            accuracy = trainer.validate(state, training.validation)
            save(files.checkpoint, state, settings)
            right = np.mean([share for passed, share in state.curve if passed > state.epoch - 1])
            print(f"{name:<24} {word} {right:.2%}, validation {accuracy:.2%}", flush=True)
            interrupt.check()
    if not state.best:
        raise Failure("train: no epoch ended")


def _finish(training: Training, files: _Files) -> None:
    """Evaluate the best weights, write model, curve and figures, and print a summary."""
    trainer, state, settings = training.trainer, training.state, training.settings
    best, test = (state.best, state.best_shifts), training.test
    accuracy = trainer.accuracy(*best, test) if test else None
    figures = _figures(training) | {"note": training.note, "test_accuracy": accuracy}
    title = f"{settings.network}, {settings.dataset}: validation {state.best_accuracy:.2%}"
    contents: dict[str | Path, bytes] = {
        files.model: trainer.file(*best),
        files.curve: draw(state, title, training.measure),
    }
    if files.stats:
        contents[files.stats] = json_bytes(figures)
    write_atomically(contents)
    lines = {"validation": f"{state.best_accuracy:.2%}"}
    if test:
        lines["accuracy"] = f"{accuracy:.2%} of {len(test):,} test images"
    if figures["cycles_per_step"]:
        lines["cycles per step"] = f"{figures['cycles_per_step']:,.0f}"
        lines["multipliers in use"] = f"{figures['utilisation']:.1%}"
    for name, text in {**lines, "model": files.model, "curve": files.curve}.items():
        print(f"{name:<24} {text}")


def _figures(training: Training) -> dict[str, Any]:
    """Return the figures of a training."""
    trainer, state, settings = training.trainer, training.state, training.settings
    cycles = state.cycles / state.steps if state.cycles else None
    multipliers = settings.cores * trainer.config.rows * trainer.config.columns
    return {
        **asdict(settings),
        "device": trainer.device_name,
        "epochs": state.epoch,
        "steps": state.steps,
        "curve": state.curve,
        "validations": state.validations,
        "validation_accuracy": state.best_accuracy,
        "macs_per_step": trainer.macs,
        "cycles_per_step": cycles,
        "utilisation": trainer.macs / (cycles * multipliers) if cycles else None,
    }
