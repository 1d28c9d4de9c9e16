"""The whole core as a device: its Verilog, compiled by Verilator and driven in process.

The compiled model is kept in the user's cache, one for each state of the sources and each
configuration, so that a second run starts at once.
"""

import ctypes
import hashlib
import json
import re
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    OFFSETS,
    Control,
    Interrupt,
    Status,
    activity_names,
)
from celosia.sim import counting, parts, verilate
from celosia.sim.verilate import RtlError, cache_directory, compile_library, once, want_tools

_HARNESS = [
    Path(__file__).with_name(name) for name in ("harness.cpp", "bursts.h", "disturb.h", "arrays.h")
]
#: Declaration of a memory in Amaranth's Verilog, those of queues left out.
_MEMORY = re.compile(r"(?m)^(  reg \[\d+:0\] (?:bank|half|lane)_[0-9_]+ \[\d+:0\]);$")
_SLICE = 1 << 16


class RunResult(NamedTuple):
    """What a run took and how it ended.

    ``counters`` holds the cycles of each activity of each unit, by lower-case names; activities
    that did not occur are left out. ``error`` is (code, unit, index of the instruction), or None.
    """

    cycles: int
    counters: dict[str, dict[str, int]]
    error: tuple[isa.Error, isa.Unit, int] | None


def fast(config: Config) -> Config:
    """Return a core of the same sums in the same cycles that simulates faster.

    A multiplication is one operation for the simulator, and dozens when built of gates.
    """
    return replace(config, dsp_columns=config.columns, cells="portable")


def _gates(netlist: Path) -> str:
    """Return the Verilog of a netlist with the models of the cells that it leaves as instances."""
    return "\n".join(path.read_text() for path in (*parts.models("*"), netlist))


def model(config: Config, netlist: Path | None = None, *, arrays: bool = False) -> Path:
    """Return the compiled model of a core of ``config``, building it where there is none.

    Within ``celosia.sim.counting.counting`` it is one that counts.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    netlist : Path, optional
        What is compiled instead of the core's own Verilog: its netlist, see
        ``celosia.hw.flow.gates``.
    arrays : bool
        Whether bits of the core's memories can be flipped, see ``celosia.sim.flips``; such a model
        is one of its own.

    Raises
    ------
    SimulatorNotFound
        If there is no Verilator or no C++ compiler.
    RtlError
        If the build fails.
    """
    from celosia.hw.build import sources_digest

    verilator = want_tools()
    counted = _counted() if netlist is None else ()
    if netlist is None:
        config = fast(config)
        sizes = {key: value for key, value in asdict(config).items() if key != "name"}
        key = repr((sources_digest(), sizes))
    else:
        key = f"{config.bus_bytes} {_gates(netlist)}"
    digest = hashlib.sha256(repr((key, verilate.FLAGS, str(verilator), *counted, arrays)).encode())
    more = _counting_files() if counted else ()
    for path in (*_HARNESS, *more, Path(__file__), Path(verilate.__file__)):
        digest.update(path.read_bytes())
    target = cache_directory() / "models" / f"{digest.hexdigest()[:32]}.so"
    once(target, lambda: _build(config, netlist, target, counted=counted, arrays=arrays))
    return target


def _counted() -> tuple[str, ...]:
    """Return what makes Verilator count what devices are asked to; nothing where they are not."""
    counter = counting.current()
    if counter is None:
        return ()
    return verilate.TOGGLES if counter.toggles else verilate.LINES


def _counting_files() -> tuple[Path, ...]:
    """Return what else decides a model that counts."""
    from celosia.hw.flow import origins

    return (Path(origins.__file__), *verilate.POINTS)


def _build(
    config: Config, netlist: Path | None, target: Path, *, counted: tuple[str, ...], arrays: bool
) -> None:
    from celosia.hw.build import verilog
    from celosia.hw.flow.origins import core_with_origins

    start = time.monotonic()
    kind = "counting model" if counted else "Verilator model"
    thing = config.name if netlist is None else netlist.name
    print(f"building the {kind} of {thing}, once ...", file=sys.stderr, flush=True)
    level = "-O1"
    if netlist is not None:
        # A hundred thousand gates that run for seconds.
        text, level = _gates(netlist), "-O0"
    elif counted:
        text, origins = core_with_origins(config)
        counting.origins_of(target).write_text(json.dumps(origins._asdict()))
    else:
        text = verilog(config)
    definitions = [f"CELOSIA_BUS_BYTES={config.bus_bytes}"]
    if arrays:
        text = _MEMORY.sub(r"\1 /*verilator public_flat_rw*/;", text)
        definitions.append("CELOSIA_ARRAYS")
    compile_library(text, target, _HARNESS, level=level, definitions=definitions, counting=counted)
    print(f"built in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _library(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.celosia_open.restype = ctypes.c_void_p
    library.celosia_open.argtypes = [ctypes.c_uint64] * 3
    library.celosia_close.argtypes = [ctypes.c_void_p]
    library.celosia_memory.restype = ctypes.POINTER(ctypes.c_uint8)
    library.celosia_memory.argtypes = [ctypes.c_void_p]
    library.celosia_write_register.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    library.celosia_read_register.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.POINTER(ctypes.c_uint32),
    ]
    library.celosia_wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.celosia_pause.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.POINTER(ctypes.c_uint32),
    ]
    library.celosia_refuse.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * 2, ctypes.c_uint32]
    library.celosia_refused.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(ctypes.c_uint32),
    ]
    library.celosia_refused.restype = ctypes.c_uint32
    library.celosia_broken.argtypes = [ctypes.c_void_p]
    library.celosia_broken.restype = ctypes.c_uint32
    library.celosia_quiet.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    return library


class RtlDevice:
    """A simulated core with an external memory.

    Parameters
    ----------
    config : Config
        Sizes of the core.
    latency : int
        Cycles from an address taken by the memory to its first beat, and from the last beat of a
        write to its response.
    bandwidth : float
        Beats that the memory moves each cycle, reads and writes together, above 0 up to 2.
    memory_bytes : int
        Bytes of external memory.
    cycles_limit : int
        Cycles of one run after which the core is taken to hang.
    netlist : Path, optional
        What runs instead of the core's own Verilog, see ``model``.
    arrays : bool
        Whether bits of its memories can be flipped, see ``model``.

    Raises
    ------
    ValueError
        If latency or bandwidth are out of range.
    SimulatorNotFound, RtlError
        See ``model``.
    """

    def __init__(
        self,
        config: Config,
        *,
        latency: int = 32,
        bandwidth: float = 1.0,
        memory_bytes: int = 64 << 20,
        cycles_limit: int = 1 << 32,
        netlist: Path | None = None,
        arrays: bool = False,
    ) -> None:
        if not 1 <= latency <= 1 << 20:
            raise ValueError(f"latency: wanted 1 to {1 << 20} cycles, got {latency}")
        if not 1 / 1024 <= bandwidth <= 2:
            raise ValueError(f"bandwidth: wanted 1/1024 to 2 beats per cycle, got {bandwidth}")
        self.config = config
        self.cycles_limit = cycles_limit
        path = model(config, netlist, arrays=arrays)
        self._library = _library(path)
        counter = counting.current()
        if counter and netlist is None:
            counter.note(path, self._library)
        self._device = self._library.celosia_open(memory_bytes, latency, round(bandwidth * 65536))
        if not self._device:
            raise RtlError(
                f"external memory: wanted {memory_bytes} bytes, this machine has not got them"
            )
        self._memory = np.ctypeslib.as_array(
            self._library.celosia_memory(self._device), shape=(memory_bytes,)
        )
        self._write_register("interrupt_enable", Interrupt.DONE.value | Interrupt.ERROR.value)
        got = self._read_register("fingerprint")
        if got != config.fingerprint:
            raise RtlError(f"fingerprint: wanted {config.fingerprint:#x}, the core says {got:#x}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; the device cannot be used afterwards."""
        if self._device is not None:
            self._library.celosia_close(self._device)
            self._device = None

    def _register(self, offset: int) -> int:
        value = ctypes.c_uint32()
        response = self._library.celosia_read_register(self._device, offset, ctypes.byref(value))
        if response:
            raise RtlError(f"register {offset:#x}: wanted an answer to a read, got {response}")
        return value.value

    def _read_register(self, name: str) -> int:
        return self._register(OFFSETS[name])

    def _write_register(self, name: str, value: int) -> None:
        response = self._library.celosia_write_register(self._device, OFFSETS[name], value)
        if response:
            raise RtlError(f"register {name}: wanted an answer to a write, got {response}")

    def _place(self, address: int, count: int) -> slice:
        if address < 0 or count < 0 or address + count > len(self._memory):
            raise ValueError(
                f"external memory: wanted bytes below {len(self._memory):#x}, "
                f"got {count} bytes at {address:#x}"
            )
        return slice(address, address + count)

    def write(self, address: int, data: bytes) -> None:
        """Put ``data`` into external memory, in no time."""
        self._memory[self._place(address, len(data))] = np.frombuffer(data, np.uint8)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self._memory[self._place(address, count)].tobytes()

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` instructions at ``address``; return what it took.

        After an error the core is reset softly, so that the next program runs.

        Raises
        ------
        ValueError
            If ``count`` is not 1 to 65535.
        RtlError
            If the core does not finish within ``cycles_limit``.
        """
        if not 1 <= count < 1 << 16:
            raise ValueError(f"program: wanted 1 to {(1 << 16) - 1} instructions, got {count}")
        self._write_register("program_address", address)
        self._write_register("program_length", count)
        self._write_register("control", Control.CLEAR.value)
        # The doorbell is answered after the counters are clear.
        self._library.celosia_wait(self._device, COUNTERS_PER_UNIT)
        self._write_register("control", Control.START.value)
        self._meanwhile()
        left = self.cycles_limit
        while not self._library.celosia_wait(self._device, min(left, _SLICE)):
            left -= _SLICE
            if left <= 0:
                raise RtlError(f"run: wanted an end within {self.cycles_limit} cycles, got none")
        return self._result()

    def _meanwhile(self) -> None:
        """Do what a device does to a program that was started."""

    def _result(self) -> RunResult:
        error = None
        if self._read_register("status") & Status.ERROR.value:
            error = (
                isa.Error(self._read_register("error_code")),
                isa.Unit(self._read_register("error_unit")),
                self._read_register("error_index"),
            )
        cycles = self._read_register("cycles")
        counters = self._counters()
        if error is not None:
            self._write_register("control", Control.RESET.value)
            for _ in range(1000):
                if not self._read_register("status") & (Status.ERROR | Status.DRAINING).value:
                    break
            else:
                raise RtlError("reset: wanted the core to become idle, it does not")
        self._write_register("interrupt", Interrupt.DONE.value | Interrupt.ERROR.value)
        return RunResult(cycles, counters, error)

    def _counters(self) -> dict[str, dict[str, int]]:
        names = activity_names()
        counters: dict[str, dict[str, int]] = {}
        for unit in isa.Unit:
            base = COUNTERS + unit.value * COUNTERS_PER_UNIT * 4
            values = {name: self._register(base + 4 * place) for place, name in names.items()}
            counters[unit.name.lower()] = {name: value for name, value in values.items() if value}
        return counters
