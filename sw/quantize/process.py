"""A float network in a separate process: converters print pages, and crash."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from celosia.sw.ir.parts import Port
from celosia.sw.quantize.model import FloatModel, QuantizeError, Sample
from celosia.sw.quantize.sources import source_of
from celosia.sw.runtime.arrays import InputError, label

#: The child process, which unlike one of multiprocessing does not run the caller's script again.
_CHILD = "import sys; from celosia.sw.quantize.process import serve; serve(int(sys.argv[1]))"

#: Shapes of inputs by name, the empty one for the only input.
Shapes = Mapping[str, tuple[int, ...]]

#: Characters of an error of a framework.
_LINE = 250

#: State of the child process: its network, and the stream that progress goes to.
_model: FloatModel | None = None
_progress: TextIO | None = None


class Converter:
    """A float network, opened; a context manager that ends its process.

    Parameters
    ----------
    path : pathlib.Path
        The network, of one of ``SOURCES`` whose tools are installed.
    shapes : mapping of str to tuple of int, optional
        Shapes of the inputs of an ``.onnx`` file whose extents are free, by name.

    Raises
    ------
    QuantizeError
        If it cannot be read or converted.
    """

    def __init__(self, path: Path, shapes: Shapes | None = None) -> None:
        self.path = path
        self._pipe, other = Pipe()
        with other:
            number = other.fileno()
            # The child ends when its input does, also where this process is killed.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD, str(number)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.PIPE,
                pass_fds=(number,),
            )
        try:
            self.ports: list[Port] = self._call("open", _open, path, shapes or {})
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> "Converter":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.communicate()

    def quantized(self, arrays: Sequence[np.ndarray]) -> bytes:
        """Return the int8 file.

        ``arrays``: for each of ``ports`` the samples that ranges are measured on. Raises InputError
        if numbers are not finite, or there are not as many of each; QuantizeError if the network
        cannot be quantised.
        """
        for array, port in zip(arrays, self.ports, strict=True):
            if not np.isfinite(array).all():
                raise InputError(f"{label(port)}: wanted finite numbers, got others")
        return self._call("quantise", _quantize, self._named(arrays))

    def outputs(self, content: bytes | None, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return outputs for samples, shape ``(N, elements)``; of the float file for None."""
        return self._call("run", _outputs, content, self._named(arrays))

    def _named(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        counts = [len(array) for array in arrays]
        if len(set(counts)) > 1:
            raise InputError(f"wanted as many samples of each input, got {counts}")
        return {port.name: array for port, array in zip(self.ports, arrays, strict=True)}

    def _call(self, verb: str, function: Any, *arguments: Any) -> Any:
        try:
            self._pipe.send((verb, function, arguments))
            result = self._pipe.recv()
        except (BrokenPipeError, ConnectionResetError, EOFError):
            code = self._process.wait()
            raise QuantizeError(
                f"{self.path}: cannot {verb} it: the converter crashed (exit code {code})"
            ) from None
        if isinstance(result, QuantizeError):
            raise QuantizeError(f"{self.path}: {result}")
        return result


def serve(number: int) -> None:
    """Carry out calls until the parent ends; the terminal is for progress alone.

    ``number``: file descriptor of the pipe that calls come from.
    """
    global _progress
    pipe = Connection(number)
    _progress = os.fdopen(os.dup(2), "w")
    sink = os.open(os.devnull, os.O_WRONLY)
    # tqdm's own lock outlives a crash, and multiprocessing warns of it.
    tqdm.set_lock(threading.RLock())
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    threading.Thread(target=_end_with_input, daemon=True).start()
    with suppress(EOFError):
        while True:
            pipe.send(_plainly(*pipe.recv()))


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _plainly(verb: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Call a function; replace its errors by one that needs no framework."""
    try:
        return function(*arguments)
    except (QuantizeError, InputError) as error:
        return QuantizeError(str(error))
    except Exception as error:
        text = next((line for line in str(error).splitlines() if line.strip()), repr(error)).strip()
        # Some errors of frameworks have a whole configuration in them.
        shown = text if len(text) <= _LINE else f"{text[:_LINE]} ..."
        return QuantizeError(f"cannot {verb} it: {shown}")


def _open(path: Path, shapes: Shapes) -> list[Port]:
    global _model
    source = source_of(path)
    if shapes and path.suffix.lower() != ".onnx":
        raise QuantizeError("wanted an .onnx file for --shape")
    _model = source.open(path, shapes) if shapes else source.open(path)
    return _model.ports


@dataclass(frozen=True)
class _Samples:
    """Samples one by one, with a progress bar each time."""

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
    module = import_module(f"celosia.sw.quantize.{kind}")
    return module.run(content, arrays, _steps(arrays, "evaluating"))


def _steps(arrays: Mapping[str, np.ndarray], text: str) -> Any:
    count = len(next(iter(arrays.values())))
    return tqdm(range(count), text, unit="sample", delay=1, file=_progress, disable=None)
