"""A float network in a process of its own: converters print pages, and crash."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from celosia.sw.ir.program import Port
from celosia.sw.quantize.model import FloatModel, QuantizeError, Sample
from celosia.sw.quantize.sources import source_of
from celosia.sw.runtime.arrays import InputError

__all__ = ["Converter"]

#: State of the child process: its network, and the stream that progress goes to.
_model: FloatModel | None = None
_progress: TextIO | None = None


class Converter:
    """A float network, opened; a context manager that ends its process.

    Parameters
    ----------
    path : pathlib.Path
        The network, of one of ``SOURCES`` whose tools are installed.

    Raises
    ------
    QuantizeError
        If it cannot be read or converted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _start)
        try:
            self.ports: list[Port] = self._call("open", _open, path)
        except BaseException:
            self._pool.shutdown(cancel_futures=True)
            raise

    def __enter__(self) -> "Converter":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def quantized(self, arrays: Sequence[np.ndarray]) -> bytes:
        """Return the int8 file.

        Parameters
        ----------
        arrays : sequence of numpy.ndarray
            For each of ``ports`` the items that ranges are measured on.
        """
        return self._call("quantise", _quantize, self._named(arrays))

    def outputs(self, content: bytes | None, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return what a file gives for items, shape ``(N, elements)``; the float one for None."""
        return self._call("run", _outputs, content, self._named(arrays))

    def _named(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        return {port.name: array for port, array in zip(self.ports, arrays, strict=True)}

    def _call(self, verb: str, function: Any, *arguments: Any) -> Any:
        try:
            return self._pool.submit(_plainly, verb, function, *arguments).result()
        except BrokenExecutor:
            raise QuantizeError(f"{self.path}: cannot {verb} it: the converter crashed") from None
        except QuantizeError as error:
            raise QuantizeError(f"{self.path}: {error}") from None


def _start() -> None:
    """Give the terminal to progress alone, and end with the parent."""
    global _progress
    _progress = os.fdopen(os.dup(2), "w")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _plainly(verb: str, function: Any, *arguments: Any) -> Any:
    """Call a function; its errors become one that needs no framework to be read."""
    try:
        return function(*arguments)
    except (QuantizeError, InputError) as error:
        raise QuantizeError(str(error)) from None
    except Exception as error:
        text = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise QuantizeError(f"cannot {verb} it: {text.strip()}") from None


def _open(path: Path) -> list[Port]:
    global _model
    _model = source_of(path).open(path)
    return _model.ports


@dataclass(frozen=True)
class _Samples:
    """Items one by one, with a progress bar each time."""

    arrays: Mapping[str, np.ndarray]

    def __iter__(self) -> Iterator[Sample]:
        for step in _steps(self.arrays, "calibrating"):
            yield {name: array[step : step + 1] for name, array in self.arrays.items()}


def _quantize(arrays: Mapping[str, np.ndarray]) -> bytes:
    assert _model is not None
    return _model.quantize(_Samples(arrays))


def _outputs(content: bytes | None, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    assert _model is not None
    content = content or _model.content
    kind = "litert" if content[4:8] == b"TFL3" else "onnx"
    judge = import_module(f"celosia.sw.quantize.{kind}")
    return judge.run(content, arrays, _steps(arrays, "evaluating"))


def _steps(arrays: Mapping[str, np.ndarray], text: str) -> Any:
    count = len(next(iter(arrays.values())))
    return tqdm(range(count), text, unit="item", delay=1, file=_progress, disable=None)
