"""Every byte of a program's outputs against LiteRT's reference kernels."""

import numpy as np
import prerequisites

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session


def compare(
    content: bytes, *inputs: np.ndarray, sizes: str, batch: int = 1, device: str = "machine"
) -> Program:
    """Compile a model, run its file on a device, and fail if a byte differs from LiteRT's.

    ``inputs`` are of shape (invocations, ...). Returns the program.
    """
    return _compared(content, *inputs, sizes=sizes, batch=batch, device=device)[0]


def compare_cycles(
    content: bytes, *inputs: np.ndarray, sizes: str, tolerance: float = 0.001
) -> int:
    """Compare as ``compare`` does one invocation on the RTL, and its cycles with the estimate.

    Returns the cycles that the RTL counts.
    """
    program, counted = _compared(content, *inputs, sizes=sizes, batch=1, device="rtl")
    assert counted is not None
    estimated = sum(estimate(section.code, program.config).total for section in program.per_batch)
    assert abs(estimated - counted) <= max(3, tolerance * counted), (estimated, counted)
    return counted


def _compared(
    content: bytes, *inputs: np.ndarray, sizes: str, batch: int, device: str
) -> tuple[Program, int | None]:
    compiled = compile_graph(load(content), preset(sizes), batch).to_bytes()
    program = Program.from_bytes(compiled)
    given = [x.reshape(-1, *p.shape) for x, p in zip(inputs, program.inputs, strict=True)]
    with open_session(program, device=device) as session:
        results = session.run(given)
    for got, wanted in zip(results, prerequisites.litert_runs(content, *inputs), strict=True):
        np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
        assert got.tobytes() == wanted.tobytes()
    return program, session.statistics.cycles
