"""Celosia in ExecuTorch's runtime."""

import ctypes
import itertools
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.executorch.backend import CelosiaBackend
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session
from celosia.sw.runtime.statistics import Statistics

_SOURCE = Path(__file__).with_name("backend.cpp")
#: Bytes of the text of an error, as in the source.
_TEXT_BYTES = 512


class _Operand(ctypes.Structure):
    """A tensor of ExecuTorch."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64))


_LOAD = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(_Operand), ctypes.c_uint64, ctypes.c_void_p
)
_CLOSE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Runtime:
    """Celosia in ExecuTorch's runtime, for the programs that this process loads.

    A process has one. ``Runtime.get`` makes it and sets the device of the programs that are loaded
    from then on.
    """

    _only: "Runtime | None" = None

    def __init__(self) -> None:
        self._options = dict[str, Any]()
        self._sessions = dict[int, Session]()
        self._numbers = itertools.count(1)
        # ExecuTorch calls these until the process ends.
        self._callbacks = _LOAD(self._load), _RUN(self._run), _CLOSE(self._close)
        error = ctypes.CDLL(str(_library())).celosia_register(
            CelosiaBackend.__name__.encode(), *self._callbacks
        )
        if error:
            raise RuntimeError(f"ExecuTorch refuses the backend: error {error:#x}")

    @classmethod
    def get(cls, *, device: str = "machine", **options: Any) -> "Runtime":
        """Return the runtime, with another device for what is loaded next.

        Parameters
        ----------
        device : str
            One of ``backends.DEVICES``.
        **options
            As in ``open_session``.

        Raises
        ------
        SimulatorNotFound
            If there is no C++ compiler.
        RtlError
            If the compiler fails.
        """
        if cls._only is None:
            cls._only = cls()
        cls._only._options = {"device": device, **options}
        return cls._only

    @property
    def programs(self) -> list[Program]:
        """Programs of the partitions that are loaded; their layers run on the core."""
        return [session.program for session in self._sessions.values()]

    @property
    def statistics(self) -> list[Statistics]:
        """Costs of all runs, for each partition that is loaded."""
        return [session.statistics for session in self._sessions.values()]

    def _load(self, data: int, size: int, text: int) -> int:
        """Load a program into a device; return its number."""
        try:
            program = Program.from_bytes(ctypes.string_at(data, size))
            number = next(self._numbers)
            self._sessions[number] = open_session(program, **self._options)
        except Exception as error:
            return _failed(error, text)
        return number

    def _run(self, number: int, operands: Any, count: int, text: int) -> int:
        """Run a program on tensors of ExecuTorch: its inputs, then its outputs."""
        try:
            session = self._sessions[number]
            ports = session.program.inputs, session.program.outputs
            tensors = [
                _contents(operand, port)
                for operand, port in zip(operands[:count], sum(ports, ()), strict=True)
            ]
            inputs = len(ports[0])
            for target, result in zip(tensors[inputs:], session.run(tensors[:inputs]), strict=True):
                target[...] = result
        except Exception as error:
            return _failed(error, text)
        return 1

    def _close(self, number: int) -> None:
        self._sessions.pop(number).close()


def _contents(operand: _Operand, port: Port) -> np.ndarray:
    """Return the memory of a tensor."""
    size = port.items * port.bytes_per_item
    if operand.bytes != size:
        raise ValueError(f"{port.name}: wanted {size} bytes, got {operand.bytes}")
    memory = (ctypes.c_uint8 * size).from_address(operand.data)
    return np.ctypeslib.as_array(memory).view(port.dtype).reshape(port.items, *port.shape)


def _failed(error: Exception, text: int) -> int:
    """Give ExecuTorch the text of an error; return 0."""
    line = f"{error}".encode()[: _TEXT_BYTES - 1] + b"\0"
    ctypes.memmove(text, line, len(line))
    return 0


def _library() -> Path:
    """Return the library of the backend, compiled for the ExecuTorch that is installed."""
    from celosia.sim.rtl.verilate import library_of

    bindings = import_module("executorch.extension.pybindings.portable_lib")
    root = Path(str(bindings.__file__)).parents[2]
    if not (root / "lib" / "libexecutorch.so").exists():
        raise RuntimeError(f"{root}: wanted ExecuTorch with libexecutorch.so and headers, 1.5")
    includes = root / "include", root / "include/executorch/runtime/core/portable_type/c10"
    flags = [f"-I{path}" for path in includes] + ["-DC10_USING_CUSTOM_GENERATED_MACROS"]
    links = [f"-L{root / 'lib'}", "-lexecutorch", f"-Wl,-rpath,{root / 'lib'}"]
    return library_of(_SOURCE, "-std=c++17", "-O1", *flags, *links, key=version("executorch"))
