"""A LiteX system with a core, compiled by Verilator and driven in process over its line."""

import ctypes
import hashlib
import json
import sys
import time
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.sim.rtl.converted import core_verilog
from celosia.sim.rtl.core import fast, verilate
from celosia.sim.rtl.verilate import RtlError, cache_directory, compile_library, once, require_tools

_HARNESS = Path(__file__).with_suffix(".cpp")
#: Packages whose versions decide the Verilog.
_PACKAGES = ("litex", "litedram", "litex_boards", "migen")
_PROCESSOR = "pythondata-cpu-vexriscv"
#: Most bytes that one call brings, and cycles without a byte after which it returns.
_MOST = 1 << 16
_GAP = 64


def model(config: Config | PodConfig, board: str = "", processor: bool = False) -> Path:
    """Return the compiled system with a core or a pod, its description beside it.

    It is built if it does not exist, with the memory of the board of that name if one is given, and
    with a processor on request.
    Raises ``SimulatorNotFound`` if there is no Verilator or no C++ compiler.
    Raises ``RtlError`` if LiteX is missing, there is no such board, or the build fails.
    """
    from celosia.hw.environment.extras import install_command
    from celosia.hw.litex.boards import BOARDS
    from celosia.hw.verilog.build import sources_digest

    if board and board not in BOARDS:
        raise RtlError(f"wanted a board of {', '.join(BOARDS)}, got {board!r}")
    verilator = require_tools()
    try:
        packages = (*_PACKAGES, _PROCESSOR) if processor else _PACKAGES
        versions = [version(package) for package in packages]
    except PackageNotFoundError as error:
        command = install_command("litex")
        raise RtlError(f"wanted the package {error.name}, found none ({command})") from None
    if isinstance(config, PodConfig):
        config = replace(config, core=fast(config.core))
    else:
        config = fast(config)
    tools = (versions, verilate.FLAGS, str(verilator))
    key = (sources_digest(whole=True), asdict(config), BOARDS.get(board), processor, tools)
    digest = hashlib.sha256(repr(key).encode())
    for path in (_HARNESS, Path(__file__), Path(verilate.__file__)):
        digest.update(path.read_bytes())
    target = cache_directory() / "systems" / f"{digest.hexdigest()[:32]}.so"
    once(target, lambda: _build(target, config, BOARDS.get(board), processor))
    return target


def description(path: Path) -> dict[str, Any]:
    """Return the description of a compiled system, see ``celosia.hw.litex.system``."""
    return json.loads(path.with_suffix(".json").read_text())


def _build(target: Path, config: Config | PodConfig, board: Any, processor: bool) -> None:
    from celosia.hw.litex.simulated import TOP, simulated

    start = time.monotonic()
    thing = "a LiteX system"
    print(f"building {thing}, once, about a minute ...", file=sys.stderr, flush=True)
    text, described = simulated(config, board=board, processor=processor)
    text = f"{text}\n{core_verilog(config)}"
    target.with_suffix(".json").write_text(json.dumps(described))
    compile_library(text, target, [_HARNESS], level="-O1", top=TOP, definitions=["VL_USER_FINISH"])
    print(f"built in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


class SimulatedLine:
    """The host's end of the line of a simulated system, as a ``Transport``.

    The system runs while the host listens, and a second has as many cycles as its clock has hertz.

    ``path``: of ``model``.
    """

    def __init__(self, path: Path) -> None:
        library: Any = ctypes.CDLL(str(path))
        described = description(path)
        self._hertz = described["baud"]
        self.seconds_per_byte = 1 / self._hertz
        size, cycles = ctypes.c_size_t, ctypes.c_uint64
        library.system_open.argtypes = [cycles, cycles]
        library.system_open.restype = ctypes.c_void_p
        library.system_close.argtypes = [ctypes.c_void_p]
        library.system_cycle.argtypes = [ctypes.c_void_p]
        library.system_cycle.restype = cycles
        library.system_ended.argtypes = [ctypes.c_void_p]
        library.system_ended.restype = ctypes.c_bool
        library.system_send.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size]
        library.system_receive.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size, cycles, cycles]
        library.system_receive.restype = size
        self._library = library
        clocks = described["clocks"]
        # The slower the clock, the longer its cycle.
        self._system = library.system_open(round(clocks["core"]), round(clocks["bus"]))

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._library.system_send(self._system, data, len(data))

    def receive(self, seconds: float) -> bytes:
        """Return the bytes that arrive, at least one unless ``seconds`` pass.

        Raises OSError, and prints the rule, once one of the memory chip was broken.
        """
        buffer = ctypes.create_string_buffer(_MOST)
        cycles = max(1, round(seconds * self._hertz))
        got = self._library.system_receive(self._system, buffer, _MOST, _GAP, cycles)
        if self._library.system_ended(self._system):
            raise OSError("the memory chip was driven against its data sheet, see above")
        return buffer.raw[:got]

    def now(self) -> float:
        """Return the time in simulated seconds."""
        return self._library.system_cycle(self._system) / self._hertz

    def close(self) -> None:
        """Free the system."""
        if self._system:
            self._library.system_close(self._system)
            self._system = None
