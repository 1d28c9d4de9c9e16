"""A whole board in Verilator: link, core and memory, its serial line on a pseudo-terminal."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from celosia.hw.arch.config import Config
from celosia.sim.rtl import RtlError, cache_directory
from celosia.sim.simulators import SimulatorNotFound, find_verilator

__all__ = ["DIVISOR", "SimulatedBoard", "board_model"]

#: Cycles of a bit: as few as there may be, for a fast simulation.
DIVISOR = 4

_HARNESS = Path(__file__).with_name("board.cpp")
_WAIVED = (
    "WIDTH",
    "UNOPTFLAT",
    "CASEINCOMPLETE",
    "CASEOVERLAP",
    "SYMRSVDWORD",
    "CMPCONST",
    "UNSIGNED",
)
#: Verilator keeps set-up code apart: it runs once.
_LEVELS = "OPT_FAST=-O2 OPT_GLOBAL=-O2 OPT_SLOW=-O0"
_FLAGS = ("--cc", "--exe", "--build", "-j", "2", "--top-module", "celosia", "-O3", "--noassert")


def board_model(config: Config, *, memory_bytes: int) -> Path:
    """Return the compiled board of a core of ``config``, building it where there is none.

    Raises
    ------
    SimulatorNotFound
        If there is no Verilator or no C++ compiler.
    RtlError
        If the build fails.
    """
    from celosia.hw.build import convert, sources_digest
    from celosia.hw.link.system import System

    # Cells that use hardware multipliers give the same sums in the same cycles, and simulate faster.
    config = replace(config, dsp_columns=config.columns, cells="portable")
    verilator = find_verilator()
    for tool in ("g++", "make"):
        if not shutil.which(tool):
            raise SimulatorNotFound(
                f"{tool}: wanted it on PATH, found none (apt-get install {tool})"
            )
    sizes = {key: value for key, value in asdict(config).items() if key != "name"}
    digest = hashlib.sha256(repr((sources_digest(), sizes, memory_bytes, str(verilator))).encode())
    for path in (_HARNESS, Path(__file__)):
        digest.update(path.read_bytes())
    target = cache_directory() / "boards" / digest.hexdigest()[:32]
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        directory = Path(name)
        system = System(config=config, divisor=DIVISOR, memory_bytes=memory_bytes)
        (directory / "celosia.v").write_text(convert(system))
        (directory / "board.cpp").write_bytes(_HARNESS.read_bytes())
        (directory / "waivers.vlt").write_text(
            "`verilator_config\n" + "".join(f"lint_off -rule {rule}\n" for rule in _WAIVED)
        )
        defines = f"-std=gnu++17 -w -DCELOSIA_BUS_BYTES={config.bus_bytes}"
        command = [
            str(verilator),
            *_FLAGS,
            "-CFLAGS",
            defines,
            "-MAKEFLAGS",
            _LEVELS,
            "-o",
            "board",
        ]
        command += ["waivers.vlt", "celosia.v", "board.cpp"]
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if result.returncode:
            log = cache_directory() / "board.log"
            log.write_text(result.stdout + result.stderr)
            raise RtlError(f"verilator failed ({result.returncode}); its words are in {log}")
        os.replace(directory / "obj_dir" / "board", target)
    return target


class SimulatedBoard:
    """A running board.

    Parameters
    ----------
    config : Config
        Sizes of its core.
    memory_bytes : int
        External memory.
    latency : int
        Cycles of the external memory from a request to its answer.
    noise : float
        Share of bytes on the line that are dropped, doubled or flipped, 0 to 1.
    seed : int
        Of the noise.

    Attributes
    ----------
    path : str
        Pseudo-terminal on which the link answers.

    Raises
    ------
    SimulatorNotFound, RtlError
        See ``board_model``; also if the board does not start.
    """

    def __init__(
        self,
        config: Config,
        *,
        memory_bytes: int,
        latency: int = 32,
        noise: float = 0.0,
        seed: int = 1,
    ) -> None:
        program = board_model(config, memory_bytes=memory_bytes)
        sizes = (memory_bytes, latency, DIVISOR, round(noise * 1e6), seed)
        self._process = subprocess.Popen(
            [program, *map(str, sizes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.path = self._process.stdout.readline().strip()
        if not self.path:
            self.close()
            raise RtlError("board: wanted the path of a terminal, got none")

    def close(self) -> None:
        """Stop the board: its terminal is gone."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "SimulatedBoard":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
