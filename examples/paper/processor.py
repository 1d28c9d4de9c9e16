"""Time of a model on one thread of a CPU, by LiteRT, beside the cycles of cores."""

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from celosia import Config, profile
from celosia.hw.environment.extras import install_command
from celosia.sw.files import read_file

#: Cycles from a request to the external memory to its first beat, of a core without a board.
LATENCY = 32
#: Runs that are timed, and the seconds after which no further one begins.
_RUNS, _SECONDS = 200, 2.0


class Core(NamedTuple):
    """A core, its external memory and its clock."""

    name: str
    config: Config
    latency: int  #: Cycles.
    bandwidth: float  #: Beats per cycle.
    clock_hz: float


class Compared(NamedTuple):
    """Times of one input of a model: on one thread of the CPU, on the cores."""

    model: str
    processor: float  #: Seconds, the median.
    cycles: list[float]  #: Of each core, estimated.


def litert_seconds(content: bytes) -> float:
    """Return the median time of one run on one thread, with LiteRT's fastest kernels.

    Raises ModuleNotFoundError, with the command that installs it, without LiteRT.
    """
    try:
        litert: Any = import_module("ai_edge_litert.interpreter")
    except ImportError:
        hint = f"--cpu: wanted ai-edge-litert: {install_command('litert')}"
        raise ModuleNotFoundError(hint) from None
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        values = rng.integers(-128, 127, detail["shape"], endpoint=True)
        interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _RUNS and time.perf_counter() - began < _SECONDS or not times:
        start = time.perf_counter()
        interpreter.invoke()
        times.append(time.perf_counter() - start)
    return median(times)


def compare(model: Path, cores: Sequence[Core], batch: int) -> Compared:
    """Return the times of a ``.tflite`` file; cores run ``batch`` inputs at once."""
    cycles = []
    for core in cores:
        memory = {"latency": core.latency, "bandwidth": core.bandwidth}
        estimate = profile(model, config=core.config, batch=batch, **memory)
        cycles.append(estimate.total.cycles_per_input)
    return Compared(model.stem, litert_seconds(read_file(model)), cycles)


def as_text(rows: Sequence[Compared], cores: Sequence[Core], batch: int) -> str:
    """Return the table: times of one input, and how many times faster than the CPU each core is."""
    lines = [f"{'network':20}{'CPU, us':>10}" + "".join(f"{c.name:>30}" for c in cores)]
    for row in rows:
        line = f"{row.model:20}{row.processor * 1e6:10,.1f}"
        for core, cycles in zip(cores, row.cycles, strict=True):
            ratio = row.processor * core.clock_hz / cycles
            line += f"{cycles:14,.0f} cycles{ratio:7.2f} x"
        lines.append(line)
    clocks = ", ".join(f"{core.name} at {core.clock_hz / 1e6:g} MHz" for core in cores)
    return "\n".join(
        (
            *lines,
            "",
            f"CPU: LiteRT, one thread, one input at a time, median. Cores: {clocks};",
            f"estimated cycles of an input, batch {batch}; times as fast as the CPU.",
            "The paper: 15 to 30 times a server of its day, for its own networks.",
        )
    )
