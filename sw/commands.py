"""What the commands of ``celosia`` do."""

import argparse
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, PRESETS, Config
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_graph, compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.files import write_atomically
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import MAGIC, Program
from celosia.sw.operators.page import as_markdown
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.interpreter import open_program
from celosia.sw.runtime.session import InputError, Session, Statistics, quantized

__all__ = ["BAD_INPUT", "Adder", "Missing", "line_of", "settle", "writable"]

#: What is raised for input that cannot be used: every error of the rooms is a ValueError.
BAD_INPUT = (ValueError, OSError)


#: Characters of a message at most.
_LINE = 500


class Missing(RuntimeError):
    """This machine lacks something; the message is one line."""


class Adder(Protocol):
    """Makes the parser of one command."""

    def __call__(self, name: str, text: str) -> argparse.ArgumentParser:
        """Return the parser of the command ``name``."""
        ...


def settle(arguments: argparse.Namespace) -> None:
    """Fill in what was not said of core and memory: as on the board, else as usual.

    ``preset`` stays None where neither a board nor the command says which core.

    Raises
    ------
    ValueError
        If the core cannot be on the board.
    """
    if not hasattr(arguments, "bandwidth"):
        return
    board = arguments.board
    usual = (arguments.core, 32, 1.0)
    if board:
        board = arguments.board = replace(board, config=arguments.preset or board.config)
        board.check()
        usual = (board.config, board.memory_latency, board.memory_bandwidth)
    for name, value in zip(("preset", "latency", "bandwidth"), usual, strict=True):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)


def line_of(what: object) -> str:
    """Return a message as one line that can be shown; the middle of a long one is left out."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(what).split()))
    return text if len(text) <= _LINE else f"{text[: _LINE - 100]} ... {text[-90:]}"


def writable(*paths: Path | None, sources: tuple[Path, ...] = ()) -> None:
    """Refuse outputs that could not be written, before anything takes time."""
    taken = [path.resolve() for path in sources]
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{path}: wanted a file, got a directory")
        if not path.parent.is_dir():
            raise InputError(f"{path}: no such directory as {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputError(f"{path}: cannot be written")
        if path.resolve() in taken and (path.is_file() or not path.exists()):
            raise InputError(f"{path}: named twice, or an input")
        taken.append(path.resolve())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def run_compile(arguments: argparse.Namespace) -> None:
    """Compile a model to a program."""
    writable(arguments.output, sources=(arguments.model,))
    program = compile_graph(load(arguments.model), arguments.preset, arguments.batch)
    program.save(arguments.output)


def run_report(arguments: argparse.Namespace) -> None:
    """Show what each layer takes."""
    from celosia.sim.cycles import COSTS, estimate
    from celosia.sim.footprint import Memory, reach
    from celosia.sw.measure import measure

    if (arguments.model is None) != arguments.operators:
        raise InputError("report: wanted a MODEL or --operators")
    if arguments.operators:
        print(as_markdown(), end="")
        return
    writable(arguments.csv, arguments.json, sources=(arguments.model,))
    memory = {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    costs = COSTS._replace(memory=arguments.latency, bandwidth=arguments.bandwidth)
    compiled = compile_steps(load(arguments.model), arguments.preset, arguments.batch)
    program = compiled.program
    mains = [estimate(part.main.code, program.config, costs) for part in program.parts]
    setups = [estimate(part.setup.code, program.config, costs) for part in program.parts]
    setup = sum(found.total for found in setups)
    instructions = [i for part in program.parts for i in part.main.instructions]
    peak = reach(instructions, Memory.UNIFIED, program.config)
    measured = measure(compiled, **memory) if arguments.measure else None
    finishes = [cost.finish for main in mains for cost in main.instructions]
    table = report.rows(program, finishes, bounds(compiled), measured)
    contents = {}
    if arguments.csv:
        contents[arguments.csv] = report.as_csv(table).encode()
    if arguments.json:
        text = report.as_json(program, table, setup, measured, peak=peak)
        contents[arguments.json] = text.encode()
    write_atomically(contents)
    print(report.as_text(program, table, setup, measured, peak=peak), end="")


def run_assemble(arguments: argparse.Namespace) -> None:
    """Translate assembly to instructions."""
    writable(arguments.output, sources=(arguments.file,))
    try:
        text = _read(arguments.file).decode()
        words = isa.encode_program(isa.assemble(text))
    except UnicodeDecodeError:
        raise InputError(f"{arguments.file}: not a text file") from None
    except ValueError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    write_atomically({arguments.output: words})


def run_disassemble(arguments: argparse.Namespace) -> None:
    """Translate instructions to assembly."""
    writable(arguments.output, sources=(arguments.file,))
    content = _read(arguments.file)
    if content.startswith(MAGIC):
        program = Program.load(arguments.file)
        lines = []
        for place, part in enumerate(program.parts):
            which = f" of part {place}" if len(program.parts) > 1 else ""
            for name, section in (("setup", part.setup), ("main", part.main)):
                lines.append(f"# {name}{which}, at {section.address:#x}")
                lines += map(isa.disassemble, section.instructions)
    else:
        lines = _listing(arguments.file, content)
    text = "".join(line + "\n" for line in lines)
    if arguments.output:
        write_atomically({arguments.output: text.encode()})
    else:
        sys.stdout.write(text)


def _listing(path: Path, content: bytes) -> list[str]:
    if len(content) % INSTRUCTION_BYTES:
        wanted = f"a multiple of {INSTRUCTION_BYTES} bytes"
        raise InputError(f"{path}: wanted {wanted}, got {len(content)}")
    lines = []
    for start in range(0, len(content), INSTRUCTION_BYTES):
        try:
            lines.append(isa.disassemble(isa.decode(content[start : start + INSTRUCTION_BYTES])))
        except ValueError as error:
            number = start // INSTRUCTION_BYTES
            raise InputError(f"{path}: instruction {number}: {error}") from None
    return lines


def read_array(path: Path) -> np.ndarray:
    """Return the array of an ``.npy`` file.

    Raises
    ------
    InputError
        If there is none, or it is damaged, or holds Python objects.
    """
    content = _read(path)
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


def run_run(arguments: argparse.Namespace) -> None:
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
    with _session(program, config or program.config, arguments.device, arguments) as session:
        (y,) = session.run([x], progress=True)
        costs = session.statistics
    contents = {arguments.output: _npy(y)}
    pace = _pace(costs, arguments.board)
    if arguments.stats:
        said = costs.as_dict() | pace
        contents[arguments.stats] = (json.dumps(said, indent=2) + "\n").encode()
    write_atomically(contents)
    print(_summary(costs, pace))


def run_eval(arguments: argparse.Namespace) -> None:
    """Say how often a model is right on a data set, and draw where it is wrong."""
    from celosia.sw import data
    from celosia.sw.evaluate import draw, evaluate, inputs_of, summary

    model, config, device = arguments.model, arguments.preset, arguments.device
    picture = arguments.png or Path(f"{model.stem}_confusion.png")
    writable(picture, arguments.stats, sources=(model,))
    graph = load(model)
    images, labels = (part[: arguments.limit] for part in data.load(arguments.dataset))
    program = compile_graph(graph, config, min(arguments.batch, len(images)))
    x = inputs_of(program, arguments.dataset, images)
    with _session(program, config, device, arguments) as session:
        found = evaluate(session, arguments.dataset, x, labels, device=device)
    contents = {picture: draw(found)}
    if arguments.stats:
        contents[arguments.stats] = (json.dumps(found.as_dict(), indent=2) + "\n").encode()
    write_atomically(contents)
    for name, text in {**summary(found), "picture": str(picture)}.items():
        print(f"{name:<24} {text}")


def _session(
    program: Program, config: Config, device: str, arguments: argparse.Namespace
) -> Session:
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


def run_demo(arguments: argparse.Namespace) -> None:
    """Classify handwritten digits, and draw what came out."""
    from celosia.sw.demo import demo

    writable(arguments.output)
    demo(
        arguments.output,
        config=arguments.preset,
        images=arguments.images,
        batch=arguments.batch,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
    )
