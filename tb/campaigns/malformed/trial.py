"""Outcome of a malformed file: outputs, a clear error, or a failure."""

import binascii
import resource
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.sw.cli.messages import line_of
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.ir.program import MAGIC, Program, ProgramError
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import InputError, Session
from malformed.bounds import Damage, check_bounds
from malformed.seeds import core_of

#: Errors that the command line reports in one line.
CLEAR = (ModelError, CompileError, ProgramError, InputError, DeviceError)

#: Most numbers of all inputs.
_INPUTS = 1 << 22


class Outcome(NamedTuple):
    """Outcome of a file.

    ``end``: ``answer``, ``unfed`` if the inputs would be too large, the name of a clear error, or a
    failure: ``traceback``, ``damage``, or ``message`` for an error with an empty message; ``text``:
    the message; ``inputs``, ``outputs`` (tuple of numpy.ndarray): arrays of the whole model after
    ``answer``; ``peak``: peak memory of the process, in bytes.
    """

    end: str
    text: str = ""
    inputs: tuple[np.ndarray, ...] = ()
    outputs: tuple[np.ndarray, ...] = ()
    peak: int = 0


def is_program(content: bytes) -> bool:
    """Return True for the contents of a program file; other files are models."""
    return content.startswith(MAGIC)


def _drawn(program: Program, samples: int, seed: int) -> list[np.ndarray] | None:
    """Return random inputs, or None if they would be too large."""
    rng = np.random.default_rng(seed)
    if sum(samples * port.elements for port in program.inputs) > _INPUTS:
        return None
    arrays = []
    for port in program.inputs:
        shape = (samples, *port.shape)
        if port.dtype == "float32":
            arrays.append(rng.normal(0, 10, shape).astype(np.float32))
        else:
            limits = np.iinfo(port.dtype)
            arrays.append(rng.integers(limits.min, limits.max, shape, port.dtype, endpoint=True))
    return arrays


def _ran(program: Program, samples: int, seed: int) -> Outcome:
    inputs = _drawn(program, samples, seed)
    if inputs is None:
        return Outcome("unfed")
    device = MachineDevice(program.config, program.memory_bytes)
    try:
        outputs = Session(program, device).run(inputs)
    finally:
        check_bounds(program, device.machine.memory)
    return Outcome("answer", "", tuple(inputs), tuple(outputs))


def _model(content: bytes, seed: int) -> Outcome:
    program = compile_graph(load(content), core_of(seed))
    return _ran(program, program.inputs[0].items, seed)


def _program(content: bytes, seed: int) -> Outcome:
    return _ran(Program.from_bytes(content), 2, seed)


def attempt(content: bytes) -> Outcome:
    """Read a file and run it; every exception is an outcome."""
    run: Callable[[bytes, int], Outcome] = _program if is_program(content) else _model
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = run(content, binascii.crc32(content))
    except CLEAR as error:
        text = line_of(error)
        outcome = Outcome(type(error).__name__ if text else "message", text)
    except Damage as error:
        outcome = Outcome("damage", str(error))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        outcome = Outcome("traceback", f"{type(error).__name__}: {error} ({where})")
    return outcome._replace(peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
