"""Device of the whole simulated core: its Verilog, compiled by Verilator and driven in process.

The user's cache keeps one compiled model for each state of the sources and each configuration, so
that a second run starts at once.
"""

import ctypes
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from celosia.hw.arch.commands import require_place
from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PAGE, PodConfig
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, OFFSETS, Interrupt
from celosia.sim.rtl import counting, parts, verilate
from celosia.sim.rtl import waves as recorded
from celosia.sim.rtl.converted import core_verilog
from celosia.sim.rtl.verilate import RtlError, cache_directory, compile_library, once, require_tools

_HARNESS = [
    Path(__file__).with_name(name) for name in ("harness.cpp", "bursts.h", "disturb.h", "arrays.h")
]
#: Declaration of a memory in the Verilog of a core, those of queues left out.
_MEMORY = re.compile(r"(?m)^(  .*\breg \[\d+:0\] (?:bank|half|lane)_[0-9_]+ \[0:\d+\]);")
_SLICE = 1 << 16
#: Looks at the status that a soft reset may take, a few cycles each.
_RESET_LOOKS = 1 << 18


def fast(config: Config) -> Config:
    """Return a core with the same results in the same cycles that simulates faster.

    A multiplication is one operation for the simulator, and dozens when built of gates.
    """
    return replace(config, dsp_columns=config.columns, cells="portable")


def array_of(config: Config) -> str:
    """Return what simulates a core's array: ``cells``, or ``twin``, see ``hw/matrix/twin.py``."""
    from celosia.hw.matrix.shared import is_large

    return "twin" if is_large(config.rows, config.columns) else "cells"


def _gates(netlist: Path) -> str:
    """Return the Verilog of a netlist with the models of the cells that it leaves as instances."""
    return "\n".join(path.read_text() for path in (*parts.models("*"), netlist))


def model(
    config: Config,
    netlist: Path | None = None,
    *,
    arrays: bool = False,
    waves: bool = False,
    pod: PodConfig | None = None,
) -> Path:
    """Return the compiled model of a core of ``config``, built if it does not exist.

    Inside ``celosia.sim.rtl.counting.counting`` the model counts coverage.

    ``config``: sizes of the core; ``netlist``: netlist of the core, compiled instead of its
    Verilog, see ``celosia.hw.flow.gates``; ``arrays``: build a separate model in which bits of the
    core's memories can be flipped, see tb/campaigns/flips; ``waves``: build a separate model that
    can write waves; ``pod``: build a model of a pod of such cores.
    Raises ``SimulatorNotFound`` if there is no Verilator or no C++ compiler.
    Raises ``RtlError`` if the build fails.
    """
    from celosia.hw.verilog.build import sources_digest

    verilator = require_tools(waves=waves)
    counted = _counted() if netlist is None else ()
    if netlist is None:
        config = fast(config)
        sizes = {key: value for key, value in asdict(config).items() if key != "name"}
        key = repr((sources_digest(), sizes))
    else:
        key = f"{config.bus_bytes} {_gates(netlist)}"
    flags = (*counted, arrays, *[verilate.WAVES] * waves)
    if pod:
        key += repr((sources_digest(whole=True), pod.cores, pod.ports))
    digest = hashlib.sha256(repr((key, verilate.FLAGS, str(verilator), *flags)).encode())
    more = (Path(recorded.__file__),) * waves
    if counted:
        from celosia.hw.verilog import origins

        more += (Path(origins.__file__), *verilate.POINTS)
    for path in (*_HARNESS, *more, Path(__file__), Path(verilate.__file__)):
        digest.update(path.read_bytes())
    target = cache_directory() / "models" / f"{digest.hexdigest()[:32]}.so"
    kind: dict[str, Any] = {"counted": counted, "arrays": arrays, "waves": waves, "pod": pod}
    once(target, lambda: _build(config, netlist, target, **kind))
    return target


def _counted() -> tuple[str, ...]:
    """Return the options of Verilator for the coverage of the current collector, if any."""
    counter = counting.current()
    if counter is None:
        return ()
    return verilate.TOGGLES if counter.toggles else verilate.LINES


def _build(
    config: Config,
    netlist: Path | None,
    target: Path,
    *,
    counted: tuple[str, ...],
    arrays: bool,
    waves: bool,
    pod: PodConfig | None,
) -> None:
    from celosia.hw.core import Core
    from celosia.hw.top import Top
    from celosia.hw.verilog.origins import convert_with_origins

    start = time.monotonic()
    kind = "counting model" if counted else "Verilator model" + " with waves" * waves
    thing = config.name if netlist is None else netlist.name
    thing = f"{pod.cores} cores {thing}" if pod else thing
    twin = ", with a twin of its array" * (netlist is None and array_of(config) == "twin")
    thing = f"the {kind} of {thing}{twin}"
    print(f"building {thing}, once, about a minute ...", file=sys.stderr, flush=True)
    level = "-O1"
    if netlist is not None:
        # A hundred thousand gates that run for seconds.
        text, level = _gates(netlist), "-O0"
    elif counted:
        text, origins = convert_with_origins(Top(Core(config=config)))
        counting.origins_of(target).write_text(json.dumps(origins._asdict()))
    else:
        text = core_verilog(replace(pod, core=config) if pod else config, simulated=True)
    definitions = [f"CELOSIA_BUS_BYTES={config.bus_bytes}"]
    if pod:
        ports = ", ".join(f"CELOSIA_SIGNALS(core->m_axi_{n})" for n in range(pod.ports))
        definitions.append(f"CELOSIA_PORTS={ports}")
    if waves:
        _ports_of(target).write_text(json.dumps(recorded.ports(text)))
        definitions.append(f"CELOSIA_WAVES={recorded.NANOSECONDS}")
    if arrays:
        text = _MEMORY.sub(r"\1 /*verilator public_flat_rw*/;", text)
        definitions.append("CELOSIA_ARRAYS")
    kinds: dict[str, Any] = {"definitions": definitions, "counting": counted, "waves": waves}
    compile_library(text, target, _HARNESS, level=level, **kinds)
    print(f"built in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _ports_of(target: Path) -> Path:
    """Return the file with the ports of a model that writes waves, see ``sim.rtl.waves``."""
    return target.with_suffix(".ports.json")


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
    library.celosia_wait_for.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32]
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


class RtlCore:
    """A core of a simulation: its registers, and its part of the external memory.

    ``celosia.sw.runtime.rtl`` joins it to the driver.

    ``config``: sizes of the core; ``library``, ``device``: the simulation; ``memory``: its part of
    the memory, uint8; ``number``: of the core in a pod; ``cycles_limit``: cycles of one run after
    which the core counts as hung.
    """

    def __init__(
        self,
        config: Config,
        library: Any,
        device: int,
        memory: np.ndarray,
        *,
        number: int = 0,
        cycles_limit: int = 1 << 32,
    ) -> None:
        self.config = config
        self.array = array_of(config)
        self.number = number
        self.memory_bytes = len(memory)
        self.cycles_limit = cycles_limit
        self._library, self._device, self._memory = library, device, memory
        enabled = Interrupt.DONE | Interrupt.ERROR
        self.write_registers(OFFSETS["interrupt_enable"], enabled.value)
        (got,) = self.read_registers(OFFSETS["fingerprint"])
        if got != config.fingerprint:
            raise RtlError(f"fingerprint: wanted {config.fingerprint:#x}, the core has {got:#x}")

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on, some cycles each."""
        values, value = [], ctypes.c_uint32()
        for place in self._places(offset, count):
            response = self._library.celosia_read_register(self._device, place, ctypes.byref(value))
            if response:
                text = f"register {place:#x}: wanted a response to a read, got {response}"
                raise self.failure(text)
            values.append(value.value)
        return values

    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, some cycles each."""
        for place, value in zip(self._places(offset, len(values)), values, strict=True):
            response = self._library.celosia_write_register(self._device, place, value)
            if response:
                text = f"register {place:#x}: wanted a response to a write, got {response}"
                raise self.failure(text)

    def _places(self, offset: int, count: int) -> range:
        """Return the addresses of registers on the bus."""
        first = self.number * PAGE + offset
        return range(first, first + 4 * count, 4)

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` to external memory, in no simulated time."""
        self._memory[self._place(address, len(data))] = np.frombuffer(data, np.uint8)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self._memory[self._place(address, count)].tobytes()

    def _place(self, address: int, count: int) -> slice:
        require_place(address, count, self.memory_bytes)
        return slice(address, address + count)

    def cleared(self) -> None:
        """Wait until the counters are clear."""
        self._library.celosia_wait(self._device, COUNTERS_PER_UNIT)

    def pauses(self, *, running: bool) -> Iterator[None]:
        """Yield at the interrupt of a program; raises RtlError after ``cycles_limit``."""
        if not running:
            for _ in range(_RESET_LOOKS):
                yield
            raise self.failure("wanted the core to become idle, it does not")
        for passed in range(0, self.cycles_limit, _SLICE):
            left = min(self.cycles_limit - passed, _SLICE)
            if self._library.celosia_wait_for(self._device, left, 1 << self.number):
                yield
        raise self.failure(f"wanted an end within {self.cycles_limit} cycles, got none")

    def failure(self, text: str) -> Exception:
        """Return the error of a run with this message."""
        return RtlError(f"run: {text}")


class RtlDevice(RtlCore):
    """Simulated core with an external memory.

    ``config``: sizes of the core; ``latency``: cycles from an address taken by the memory to its
    first beat, and from the last beat of a write to its response; ``bandwidth``: beats that the
    memory moves each cycle, reads and writes together, above 0 up to 2; ``memory_bytes``: bytes of
    external memory; ``cycles_limit``: cycles of one run after which the core counts as hung;
    ``netlist``: netlist that runs instead of the core's own Verilog, see ``model``; ``arrays``:
    whether bits of its memories can be flipped, see ``model``; ``waves``: file to write the core's
    signals to. It is there, with its views, after ``close``.
    Raises ``ValueError`` if latency or bandwidth are out of range.
    Raises ``SimulatorNotFound``, ``RtlError``, see ``model``.
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
        waves: recorded.Waves | None = None,
    ) -> None:
        _require_memory(latency, bandwidth)
        if netlist and waves:
            raise ValueError("waves: wanted the core's own Verilog, got a netlist")
        path = model(config, netlist, arrays=arrays, waves=waves is not None)
        library = _library(path)
        counter = counting.current()
        if counter and netlist is None:
            counter.note(path, library)
        device, memory = _opened(library, memory_bytes, latency, bandwidth)
        self._recording = None
        if waves:
            ports = json.loads(_ports_of(path).read_text())
            self._recording = recorded.Recording(waves, ports, library, device)
        super().__init__(config, library, device, memory, cycles_limit=cycles_limit)
        self.array = "cells" if netlist else self.array

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; the device cannot be used afterwards."""
        if self._device is not None:
            self._library.celosia_close(self._device)
            self._device = None
            if self._recording:
                self._recording.finish()


class RtlPod:
    """Simulated pod: its cores, each with a part of the external memory.

    ``pod``: sizes; ``memory_bytes``: bytes of external memory of each core; ``latency``,
    ``bandwidth``, of each memory port, and errors: see ``RtlDevice``. Its own registers decide
    where the bytes of each core lie: ``window`` apart.
    """

    core: type[RtlCore] = RtlCore

    def __init__(
        self, pod: PodConfig, *, latency: int = 32, bandwidth: float = 1.0, memory_bytes: int
    ) -> None:
        _require_memory(latency, bandwidth)
        self._library = _library(model(pod.core, pod=pod))
        window = 1 << (memory_bytes - 1).bit_length()
        device, memory = _opened(self._library, pod.cores * window, latency, bandwidth)
        self.config = pod.core
        self._device = device
        self._page = pod.cores * PAGE
        parts = memory.reshape(pod.cores, window)[:, :memory_bytes]
        self.window = window
        self.cores = tuple(
            self.core(pod.core, self._library, device, part, number=n)
            for n, part in enumerate(parts)
        )

    def set_pod_register(self, offset: int, value: int) -> None:
        """Write a register of the pod."""
        response = self._library.celosia_write_register(self._device, self._page + offset, value)
        if response:
            raise RtlError(f"register {offset:#x} of the pod: wanted a response, got {response}")

    def close(self) -> None:
        """Free the model; its cores cannot be used afterwards."""
        self._library.celosia_close(self._device)


def _require_memory(latency: int, bandwidth: float) -> None:
    if not 1 <= latency <= 1 << 20:
        raise ValueError(f"latency: wanted 1 to {1 << 20} cycles, got {latency}")
    if not 1 / 1024 <= bandwidth <= 2:
        raise ValueError(f"bandwidth: wanted 1/1024 to 2 beats per cycle, got {bandwidth}")


def _opened(
    library: Any, memory_bytes: int, latency: int, bandwidth: float
) -> tuple[int, np.ndarray]:
    """Open a simulation; return it and its memory, see ``RtlDevice``."""
    device = library.celosia_open(memory_bytes, latency, round(bandwidth * 65536))
    if not device:
        raise RtlError(
            f"external memory: wanted {memory_bytes} bytes, this machine has not got them"
        )
    memory = library.celosia_memory(device)
    return device, np.ctypeslib.as_array(memory, shape=(memory_bytes,))
