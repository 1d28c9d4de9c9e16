"""Cores with their memories, and outputs of LiteRT's reference kernels beside those of a core."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.runtime.session import Session


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A core with its external memory, and a clock if it is that of a board."""

    #: The board, or the core; its memory in words.
    name: str
    memory: str
    config: Config  #: Sizes of the core.
    latency: int = 32  #: Cycles from a request to external memory to its first beat.
    bandwidth: float = 1.0  #: Beats of external memory per cycle, above 0 up to 2.
    clock_hz: int | None = None  #: Clock of the board in Hz.


def of_core(config: Config) -> Setting:
    """Return the setting of a core with a memory of one beat a cycle."""
    return Setting(name=f"core {config.name}", memory="memory of one beat a cycle", config=config)


def of_board(board: Any) -> Setting:
    """Return the setting of a ``celosia.hw.litex.boards.Board``."""
    return Setting(
        name=board.title,
        memory=f"SDRAM {board.memory}",
        config=board.config,
        latency=board.memory_latency,
        bandwidth=board.memory_bandwidth,
        clock_hz=board.clock_hz,
    )


def reference(content: bytes, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Return the outputs of LiteRT's reference kernels for each input, one after the other.

    Parameters
    ----------
    content : bytes
        A ``.tflite`` file.
    arrays : sequence of numpy.ndarray
        Samples of each input, shape (N, ...). A file with another size of an input is resized.

    Raises
    ------
    ImportError
        If LiteRT is not installed.
    RuntimeError or ValueError
        If LiteRT does not run the file.
    """
    litert: Any = import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=content, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        if array[0].size != np.prod(details["shape"]):
            interpreter.resize_tensor_input(details["index"], array.shape[1:])
    interpreter.allocate_tensors()
    inputs = interpreter.get_input_details()
    results = []
    for samples in zip(*arrays, strict=True):
        for details, sample in zip(inputs, samples, strict=True):
            interpreter.set_tensor(details["index"], sample.reshape(details["shape"]))
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append([interpreter.get_tensor(details["index"]) for details in outputs])
    return results


def compare(
    session: Session, arrays: Sequence[np.ndarray], expected: Sequence[Sequence[np.ndarray]]
) -> Iterator[tuple[int, int]]:
    """Run one input after the other; yield its output bytes, and how many differ from LiteRT's.

    Parameters
    ----------
    session : Session
        A program with its device.
    arrays : sequence of numpy.ndarray
        Samples of each input.
    expected : sequence of sequence of numpy.ndarray
        Outputs of each sample, see ``reference``.
    """
    for number, outputs in enumerate(expected):
        results = session.run([array[number : number + 1] for array in arrays])
        pairs = [*zip(results, outputs, strict=True)]
        yield sum(e.nbytes for _, e in pairs), sum(_different(*pair) for pair in pairs)


def _different(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Return the number of bytes that differ."""
    both = [np.frombuffer(array.tobytes(), np.uint8) for array in (ours, theirs)]
    return int(np.count_nonzero(both[0] != both[1]))
