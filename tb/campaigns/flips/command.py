"""Flips bits in the memories of a simulated core, and reports the result of each."""

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from command_line import add_draw, aligned
from tqdm import tqdm

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.sw.cli.arguments import add_preset, whole, workers_of
from celosia.sw.cli.messages import Failure
from celosia.sw.data import load as load_images
from celosia.sw.driver.device import DeviceError
from celosia.sw.evaluate import inputs_of
from celosia.sw.files import writable, write_atomically
from celosia.sw.ir.program import Program
from celosia.sw.runtime.session import Session
from celosia.sw.workers.spread import batches, spread

_MODEL = "mnist_cnn_5x5.tflite"
_DATASET = "mnist"


class Plan(NamedTuple):
    """Plan of a campaign: flip ``n`` meets input ``n``; ``cycles`` are those of a run."""

    program: Program
    config: Config
    seed: int
    cycles: int
    inputs: np.ndarray

    @property
    def key(self) -> bytes:
        """All that the outcomes depend on besides the code."""
        core = f"{self.config!r} {self.seed} {self.inputs.shape} ".encode()
        return core + self.program.to_bytes() + self.inputs.tobytes()


class Outcome(NamedTuple):
    """Outcome of one flip.

    ``memory`` is the flipped memory, ``guard`` is True for a bit of parity; ``reported`` is the
    unit of the error, or None; ``right`` is True for a right result; ``bare`` is True if a core
    without protection gives the right result; ``label`` is True if that result has at least the
    right class.
    """

    memory: str
    guard: bool
    reported: str | None
    right: bool
    bare: bool
    label: bool


def _play(plan: Plan, config: Config, x: np.ndarray, flip: Any) -> tuple[np.ndarray | None, Any]:
    """Return result (None after an error) and error of a core that starts from power-up."""
    from flips.device import FlipDevice

    memory_bytes = max(plan.program.memory_bytes, 1)
    with FlipDevice(config, memory_bytes=memory_bytes) as device:
        session = Session(plan.program, device)
        device.pending = flip
        try:
            return session.run([x[np.newaxis]])[0][0], None
        except DeviceError:
            # Only an error of the core is an outcome.
            if device.last_error is None:
                raise
            return None, device.last_error


def _attempt(plan: Plan, arrays: Sequence[Any], number: int, want: np.ndarray) -> Outcome:
    from flips.device import drawn

    protected, bare = arrays
    flip = drawn(protected, random.Random(f"flips {plan.seed} {number}"), plan.cycles)
    array = protected[flip.array]
    x = plan.inputs[number]
    guard = flip.bit >= bare[flip.array].bits
    got, error = _play(plan, plan.config, x, flip)
    if error is not None and error[0] is not isa.Error.MEMORY:
        raise DeviceError(f"flip {number}: wanted no error or MEMORY, got {error[0].name}")
    right = got is not None and np.array_equal(got, want)
    alone = got
    if guard:
        alone = want
    elif error is not None:
        # Without an error, both cores have gone on with the same words.
        alone, _ = _play(plan, replace(plan.config, protection="none"), x, flip)
    assert alone is not None
    return Outcome(
        memory=array.memory.name.lower(),
        guard=guard,
        reported=error and error[1].name.lower(),
        right=right,
        bare=bool(np.array_equal(alone, want)),
        label=bool(alone.argmax() == want.argmax()),
    )


def _arrays(config: Config) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the memories of the core, and of the same core without protection."""
    from flips.device import FlipDevice

    found = []
    for one in (config, replace(config, protection="none")):
        with FlipDevice(one, memory_bytes=4096) as core:
            found.append(core.arrays)
    assert [a.name for a in found[0]] == [a.name for a in found[1]]
    return found[0], found[1]


def run_batch(plan: Plan, numbers: Sequence[int]) -> list[Outcome]:
    """Run the flips of these numbers."""
    from celosia.sw.runtime.machine import MachineDevice

    arrays = _arrays(plan.config)
    program = plan.program
    with Session(program, MachineDevice(plan.config, program.memory_bytes)) as session:
        (wanted,) = session.run([plan.inputs[list(numbers)]])
    return [_attempt(plan, arrays, n, want) for n, want in zip(numbers, wanted, strict=True)]


def add_arguments(made: argparse.ArgumentParser) -> None:
    """Add the arguments of the campaign."""
    made.add_argument(
        "model",
        type=Path,
        nargs="?",
        metavar="MODEL",
        help=f"classifier of handwritten digits, .tflite ({_MODEL} of the package)",
    )
    add_preset(made)
    made.add_argument("--flips", type=whole, default=100, metavar="N", help="how many (100)")
    add_draw(made)
    made.add_argument("--json", type=Path, metavar="FILE", help="also write each flip as JSON")


def _plan(arguments: argparse.Namespace) -> Plan:
    from celosia.sw.compiler.compile import compile_graph
    from celosia.sw.frontend.tflite import load

    shipped = files("celosia.sw.models").joinpath(_MODEL)
    model = arguments.model or Path(str(shipped))
    program = compile_graph(load(model), arguments.preset, 1)
    images, _ = load_images(_DATASET)
    chosen = np.random.default_rng(arguments.seed).integers(len(images), size=arguments.flips)
    inputs = inputs_of(program.name, program.inputs, _DATASET, images[chosen])
    plan = Plan(program, arguments.preset, arguments.seed, 0, inputs)
    return plan._replace(cycles=cycles_of(plan))


def cycles_of(plan: Plan) -> int:
    """Return the cycles of a run without a flip, on the core and on the same without protection.

    Builds the models of both, so that workers find them.
    """
    from flips.device import FlipDevice

    counted = set()
    for config in (plan.config, replace(plan.config, protection="none")):
        core = FlipDevice(config, memory_bytes=plan.program.memory_bytes)
        with Session(plan.program, core) as session:
            session.run([plan.inputs[:1]])
            counted.add(session.statistics.cycles)
    if len(counted) != 1:
        raise Failure(f"cycles: wanted the same with and without protection, got {sorted(counted)}")
    (cycles,) = counted
    return cycles


def run(arguments: argparse.Namespace) -> None:
    """Flip bits one at a time, each in a core fresh from power-up, during one inference."""
    writable(arguments.json)
    found: list[Outcome] = []
    plan = _plan(arguments)
    start = time.monotonic()
    with tqdm(total=arguments.flips, unit="flip", disable=None) as progress:
        job, shards = partial(run_batch, plan), batches(arguments.flips)
        for batch in spread(job, shards, workers_of(arguments), key=plan.key):
            found += batch
            progress.update(len(batch))
    seconds = time.monotonic() - start
    if arguments.json:
        text = json.dumps([one._asdict() for one in found], indent=1) + "\n"
        write_atomically({arguments.json: text.encode()})
    print(
        f"{len(found)} flips, seed {arguments.seed}, {plan.program.name} on {plan.config.name}, "
        f"{plan.cycles} cycles a run, {seconds:.1f} s\n\n{table(found)}",
        end="",
    )
    silent = sum(_is_silent(one) for one in found)
    if silent and plan.config.parity:
        raise Failure(f"{silent} of {len(found)} flips: a wrong result, and no error")


def _is_silent(one: Outcome) -> bool:
    return one.reported is None and not one.right


def table(found: Sequence[Outcome]) -> str:
    """Return the counts by memory, and of all."""
    heads = (
        *("memory", "flips", "right, silent", "right, reported", "wrong, reported"),
        *("wrong, silent", "wrong without protection", "other class without protection"),
    )
    memories = sorted({one.memory for one in found})
    groups = [(name, [one for one in found if one.memory == name]) for name in memories]
    rows: list[tuple[str, ...]] = [heads]
    for name, ones in (*groups, ("all", list(found))):
        counts = (
            len(ones),
            sum(one.reported is None and one.right for one in ones),
            sum(one.reported is not None and one.bare for one in ones),
            sum(one.reported is not None and not one.bare for one in ones),
            sum(_is_silent(one) for one in ones),
            sum(not one.bare for one in ones),
            sum(not one.label for one in ones),
        )
        rows.append((name, *map(str, counts)))
    return aligned(rows) + "\n"
