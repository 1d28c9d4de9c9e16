"""A simulated device with the serial protocol of MLPerf Tiny's firmware.

The commands and responses are those of ``benchmark/api`` of the benchmark's repository. The time is
that of a board: cycles of the core divided by its clock.
"""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from celosia import InputError
from celosia.sw.ir.parts import Port
from celosia.sw.runtime.arrays import quantized
from celosia.sw.runtime.session import Session

#: Line that ends the response to a command.
READY = "m-ready"

#: End of a command.
END = b"%"

#: Bytes that one command of the runner loads.
LINE_BYTES = 31


def _pixels(data: np.ndarray, port: Port) -> np.ndarray:
    return (data.astype(np.int16) - 128).astype(np.int8)


def _integers(data: np.ndarray, port: Port) -> np.ndarray:
    return data.view(np.int8)


def _spectrum(data: np.ndarray, port: Port) -> np.ndarray:
    return quantized(data.view("<f4").reshape(1, *port.shape), port)


class Task(NamedTuple):
    """Firmware of a task of the benchmark, as its reference implementation has it."""

    code: str  #: Name in folders of results.
    item_bytes: int  #: Bytes of one element that the runner loads.
    read: Callable[[np.ndarray, Port], np.ndarray]  #: Input of the model of loaded bytes.
    is_error: bool = False  #: The result is the mean squared error of the output.

    @property
    def model(self) -> str:
        """Name of the model, which the firmware prints."""
        return f"{self.code}01"


#: Tasks that load an input for each inference, by name of the model. Streaming wake word does not.
TASKS = {
    "IC": Task("ic", 1, _pixels),
    "KWS": Task("kws", 1, _integers),
    "VWW": Task("vww", 1, _pixels),
    "AD": Task("ad", 4, _spectrum, is_error=True),
}


class Target(Protocol):
    """The device under test, to the runner."""

    task: Task  #: Its task.
    input_bytes: int  #: Bytes of an input.

    def respond(self, command: str) -> list[str]:
        """Return the lines of the response to a command, the last one ``READY``."""
        ...


class Device:
    """A simulated device under test, without firmware.

    Parameters
    ----------
    session : Session
        The program of the task's model on a device.
    task : Task
        The task.
    clock_hz : float
        Clock of the core.
    cycles : int
        Cycles of one inference, where the session's device counts none.
    """

    def __init__(self, session: Session, task: Task, *, clock_hz: float, cycles: int) -> None:
        self._session, self.task = session, task
        self._clock_hz, self._cycles = clock_hz, cycles
        (self._port,), (self._output,) = session.program.inputs, session.program.outputs
        self.input_bytes = self._port.elements * task.item_bytes
        self._time = 0.0
        self._buffer = b""
        self._expected = 0
        self._values: Sequence[float] = ()

    def respond(self, command: str) -> list[str]:
        """Return the response to a command, the last one ``READY``."""
        word, *words = command.split() or [""]
        commands = {
            "name": self._name,
            "profile": self._profile,
            "timestamp": self._timestamp,
            "db": self._load,
            "infer": self._infer,
            "results": self._results,
        }
        if word not in commands:
            return [f"e-[Unknown command: {word}]", READY]
        try:
            return [*commands[word](*words), READY]
        except InputError as error:
            return [f"e-[{error}]", READY]
        except (TypeError, ValueError):
            return [f"e-[Unknown command: {command}]", READY]

    def _name(self) -> list[str]:
        return ["m-name-dut-[celosia]"]

    def _profile(self) -> list[str]:
        return ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", f"m-model-[{self.task.model}]"]

    def _timestamp(self) -> list[str]:
        return [f"m-lap-us-{round(self._time * 1e6)}"]

    def _load(self, *words: str) -> list[str]:
        """Begin a buffer of a number of bytes, or add bytes to it."""
        if words[:1] == ("load",):
            self._buffer, self._expected = b"", _count(words[1])
            return [f"m-[Expecting {self._expected} bytes]"]
        (digits,) = words
        self._buffer = (self._buffer + bytes.fromhex(digits))[: self._expected]
        return ["m-load-done"] if len(self._buffer) == self._expected else []

    def _infer(self, count: str, warmups: str = "10") -> list[str]:
        """Run the loaded input, and let the time of all inferences pass.

        They take the same cycles, whatever the input is, so one stands for all.
        """
        number, first = _count(count), _count(warmups)
        if len(self._buffer) != self.input_bytes:
            raise InputError(f"wanted {self.input_bytes} bytes, got {len(self._buffer)}")
        array = self.task.read(np.frombuffer(self._buffer, np.uint8), self._port)
        array = array.reshape(1, *self._port.shape)
        (output,) = self._session.run([array])
        counted = self._session.statistics.cycles_per_input
        seconds = (self._cycles if counted is None else counted) / self._clock_hz
        self._values = self._result(output)
        self._time += first * seconds
        begin = [f"m-warmup-start-{first}", "m-warmup-done", f"m-infer-start-{number}"]
        begin += self._timestamp()
        self._time += number * seconds
        return [*begin, *self._timestamp(), "m-infer-done", *self._results()]

    def _result(self, output: np.ndarray) -> Sequence[float]:
        """Return what the firmware prints: the scores, or the error of a reconstruction."""
        port = self._output
        real = (output.reshape(-1).astype(np.float32) - port.zero_point) * np.float32(port.scale)
        if self.task.is_error:
            return [float(np.mean((real - np.frombuffer(self._buffer, "<f4")) ** 2))]
        return [float(value) for value in real]

    def _results(self) -> list[str]:
        return [f"m-results-[{','.join(f'{value:.3f}' for value in self._values)}]"]


def _count(word: str) -> int:
    if not word.isdecimal():
        raise ValueError(f"wanted a number, got {word}")
    return int(word)


def load(device: Target, data: bytes) -> list[str]:
    """Load an input as the runner does; return the responses."""
    lines = device.respond(f"db load {len(data)}")
    for first in range(0, len(data), LINE_BYTES):
        lines += device.respond(f"db {data[first : first + LINE_BYTES].hex()}")
    return lines


def serve(device: Target, handle: int) -> None:
    """Respond to the commands that arrive at a file of the operating system, until its end."""
    os.write(handle, f"m-init-done\r\n{READY}\r\n".encode())
    pending = b""
    while arrived := os.read(handle, 4096):
        *commands, pending = (pending + arrived).split(END)
        for command in commands:
            text = "".join(
                f"{line}\r\n" for line in device.respond(command.decode("ascii", "replace"))
            )
            os.write(handle, text.encode())
