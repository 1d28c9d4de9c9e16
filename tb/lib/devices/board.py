"""Whole boards in Verilator, their serial line on a pseudo-terminal."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from celosia.hw.arch.config import Config
from celosia.hw.boards.board import Board
from celosia.sim.rtl import fast
from celosia.sim.simulators import SimulatorNotFound, find_verilator
from celosia.sim.verilate import WAIVERS, RtlError, cache_directory, once
from devices.sdram_sheet import SHEETS

#: Cycles of a bit: as few as there may be, for a fast simulation.
DIVISOR = 4

#: Sources of the board itself.
_SOURCES = [Path(__file__).with_name(name) for name in ("board.cpp", "line.h", "sdram_chip.h")]
#: Verilator keeps set-up code apart: it runs once.
_LEVELS = "OPT_FAST=-O2 OPT_GLOBAL=-O2 OPT_SLOW=-O0"
_FLAGS = ("--cc", "--exe", "--build", "-j", "2", "--top-module", "celosia", "-O3", "--noassert")


def _model(board: Board, config: Config) -> Path:
    """Return the compiled board with a core of these sizes, built if it does not exist."""
    from celosia.hw.build import sources_digest

    verilator = find_verilator()
    for tool in ("g++", "make"):
        if not shutil.which(tool):
            raise SimulatorNotFound(
                f"{tool}: wanted it on PATH, found none (apt-get install {tool})"
            )
    texts = {source.name: source.read_bytes() for source in _SOURCES}
    sizes = {name: value for name, value in asdict(config).items() if name != "name"}
    named = {"name": "", "title": "", "platform": "", "loader": "", "oscillator": ""}
    key = replace(board, **named, config=config)
    sources = (sources_digest(whole=True), sizes, key, str(verilator), _FLAGS, _LEVELS, texts)
    target = cache_directory() / "boards" / hashlib.sha256(repr(sources).encode()).hexdigest()[:32]
    once(target, lambda: _build(board, config, str(verilator), texts, target))
    return target


def _build(
    board: Board, config: Config, verilator: str, texts: dict[str, bytes], target: Path
) -> None:
    from celosia.hw.boards.machine import Bench
    from celosia.hw.build import convert

    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        directory = Path(folder)
        (directory / "celosia.v").write_text(convert(Bench(board, config)))
        for name, text in texts.items():
            (directory / name).write_bytes(text)
        (directory / "waivers.vlt").write_text(WAIVERS)
        command = [verilator, *_FLAGS, "-CFLAGS", "-std=gnu++17 -w -I..", "-MAKEFLAGS", _LEVELS]
        command += ["-o", "board", "waivers.vlt", "celosia.v", "board.cpp"]
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if result.returncode:
            log = cache_directory() / "board.log"
            log.write_text(result.stdout + result.stderr)
            raise RtlError(f"verilator failed ({result.returncode}); its words are in {log}")
        os.replace(directory / "obj_dir" / "board", target)


class SimulatedBoard:
    """Board between its clock and its pads, with a model of the SDRAM chip that checks it.

    It runs until it is closed. The chip ends the simulation when a rule of its data sheet is
    broken, and names the rule on standard error.
    ``board``: which one. Its serial line is as fast as its clock allows; ``noise``: share of bytes
    on the line that are dropped, doubled or flipped, 0 to 1; ``seed``: of the noise.
    ``path``: pseudo-terminal of the link.
    Raises ``SimulatorNotFound`` if there is no Verilator or no C++ compiler.
    Raises ``RtlError`` if the build fails, or the board does not start.
    """

    def __init__(self, board: Board, *, noise: float = 0.0, seed: int = 1) -> None:
        board = replace(board, baud=board.clock_hz // DIVISOR)
        numbers = (DIVISOR, round(noise * 1e6), seed, *_chip_arguments(board))
        self._process = subprocess.Popen(
            [_model(board, fast(board.config)), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.path = self._process.stdout.readline().strip()
        if not self.path:
            self.close()
            raise RtlError("board: wanted the path of a terminal, got none")

    def close(self) -> int:
        """Stop the board: its terminal is gone. Returns its exit code, 0 unless it complained."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            return self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _chip_arguments(board: Board) -> tuple[int, ...]:
    """Return the arguments of the chip: its sheet in cycles, and the delay of its words."""
    from celosia.hw.sdram.pads import PAD_CYCLES

    sheet = SHEETS[board.sdram.part]

    def cycles(time_ns: int, clocks: int = 0) -> int:
        return max(-(-time_ns * board.clock_hz // 10**9), clocks)

    return (
        sheet.row_bits,
        sheet.column_bits,
        *map(cycles, (sheet.t_rcd, sheet.t_rp, sheet.t_ras, sheet.t_rc, sheet.t_rrd, sheet.t_rfc)),
        cycles(sheet.t_wr, sheet.t_wr_clocks),
        cycles(sheet.t_mrd, sheet.t_mrd_clocks),
        cycles(sheet.t_startup),
        sheet.t_ref * board.clock_hz // 10**9 // sheet.refreshes,
        board.sdram.read_delay - PAD_CYCLES,
    )
