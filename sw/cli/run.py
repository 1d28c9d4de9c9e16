"""``celosia run``: a model or a program on inputs."""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.arch.config import PRESETS, Config
from celosia.sw.cli.arguments import Commands, add_device, add_machine, whole
from celosia.sw.files import read_file, writable, write_atomically
from celosia.sw.ir.program import Program
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.interpreter import open_program
from celosia.sw.runtime.session import InputError, Session, Statistics, quantized

__all__ = ["add_parsers", "open_session", "run"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("run", "run a model or a program on inputs", run)
    made.add_argument("model", type=Path, metavar="MODEL|PROGRAM")
    made.add_argument("--input", type=Path, required=True, metavar="X.npy", help="int8 or float")
    made.add_argument("--output", type=Path, required=True, metavar="Y.npy", help="int8 results")
    add_device(made, "rtl")
    made.add_argument("--batch", type=whole, metavar="N", help="inputs of one run (up to 64)")
    made.add_argument("--stats", type=Path, metavar="S.json", help="also write cycles and counters")
    add_machine(made, None)


def read_array(path: Path) -> np.ndarray:
    """Return the array of an ``.npy`` file.

    Raises
    ------
    InputError
        If there is none, or it is damaged, or holds Python objects.
    """
    content = read_file(path)
    if not content.startswith(b"\x93NUMPY"):
        raise InputError(f"{path}: not an .npy file")
    # A damaged header ends in exceptions of many kinds, out of NumPy and Python's own parser.
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:
        what = "Python objects" if "pickle" in str(error) else "truncated or damaged .npy file"
        raise InputError(f"{path}: {what}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: not an .npy file")
    return array


def run(arguments: argparse.Namespace) -> None:
    """Run a model or a program on inputs."""
    model, config = arguments.model, arguments.preset
    writable(arguments.output, arguments.stats, sources=(model, arguments.input))
    array = read_array(arguments.input)
    batch = arguments.batch or (min(64, max(1, len(array))) if array.ndim else 1)
    program = open_program(model, config=config or PRESETS["edge"], batch=batch)
    if arguments.batch and arguments.batch != program.batch:
        raise InputError(
            f"{model}: program was compiled for batch {program.batch}, got --batch {batch}"
        )
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        raise InputError(
            f"{model}: wanted one input and one output, "
            f"got {len(program.inputs)} and {len(program.outputs)}"
        )
    try:
        x = quantized(array, program.inputs[0])
    except InputError as error:
        raise InputError(f"{arguments.input}: {error}") from None
    with open_session(program, config or program.config, arguments.device, arguments) as session:
        (y,) = session.run([x], progress=True)
        costs = session.statistics
    contents = {arguments.output: _npy(y)}
    pace = _pace(costs, arguments.board)
    if arguments.stats:
        said = costs.as_dict() | pace
        contents[arguments.stats] = (json.dumps(said, indent=2) + "\n").encode()
    write_atomically(contents)
    print(_summary(costs, pace))


def open_session(
    program: Program, config: Config, device: str, arguments: argparse.Namespace
) -> Session:
    """Return a program loaded into the device that the arguments describe."""
    options = {}
    if device == "rtl":
        options = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    program.want(config)
    return Session(program, open_device(device, config, program.memory_bytes, **options))


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _pace(costs: Statistics, board: Any) -> dict[str, Any]:
    """Return how many inputs a second a board takes at its clock; nothing without a board."""
    if not board or not costs.cycles_per_input:
        return {}
    pace = board.clock_hz / costs.cycles_per_input
    return {"board": board.name, "clock_hz": board.clock_hz, "inputs_per_second": pace}


def _summary(costs: Statistics, pace: dict[str, Any]) -> str:
    text = f"{costs.inputs} inputs in {costs.seconds:.2f} s"
    if costs.cycles_per_input and costs.utilisation:
        text += f", {costs.cycles_per_input:,.1f} cycles per input"
        text += f", {costs.utilisation:.1%} of the multipliers in use"
    if pace:
        text += f", {pace['inputs_per_second']:,.1f} a second at {pace['clock_hz'] / 1e6:g} MHz"
    return text
