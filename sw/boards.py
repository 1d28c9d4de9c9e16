"""Table of all boards: resources and clocks of their builds, speed on the shipped networks."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime import backends
from celosia.sw.runtime.session import InputError, Session

#: Shipped networks of the table.
_NETWORKS = ("mnist_cnn_5x5", "mnist_cnn_deep", "fashion_cnn", "mnist_cnn_3x3", "mnist_mlp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--measure", action="store_true", help="count cycles on the RTL instead of an estimate"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("build/boards"),
        metavar="DIR",
        help="where celosia build has left its reports (build/boards)",
    )


def run_boards(arguments: argparse.Namespace) -> None:
    """Print the table of boards."""
    from celosia.hw.litex.boards import BOARDS

    built = {
        name: _built(arguments.directory / name / "report.json", board)
        for name, board in BOARDS.items()
    }
    paces = {name: {} for name in BOARDS}
    with tqdm(total=len(BOARDS) * len(_NETWORKS), delay=1, file=sys.stderr, disable=None) as bar:
        for name, board in BOARDS.items():
            for network in _NETWORKS:
                cycles = _cycles(network, board, measure=arguments.measure)
                paces[name][network] = board.clock_hz / cycles
                bar.update()
    print(as_markdown(BOARDS, built, paces), end="")
    if None in built.values():
        note = "not built: celosia build BOARD adds area and Fmax (docs/how-to/boards.md)"
        print(note, file=sys.stderr)


class Built(NamedTuple):
    """Results of a build: one text for each of ``COLUMNS``, and the clocks of its seeds."""

    areas: list[str]
    spread: str


def _built(path: Path, board: Any) -> Built | None:
    """Return the results of ``celosia build`` for this board with its default core, or None.

    Raises InputError if the file is no report of a board.
    """
    from celosia.hw.flow.parts import COLUMNS

    try:
        report = json.loads(path.read_text())
        if report["core"] != board.config.name:
            return None
        blocks, clocks_of = report["blocks"].values(), report["fmax_mhz"]
        areas = [f"{sum(block[column] for block in blocks):,}" for column in COLUMNS]
        seeds = len(clocks_of["seeds"])
        which = {1: ("median",), 2: ("minimum", "maximum")}
        clocks = [clocks_of[name] for name in which.get(seeds, ("minimum", "median", "maximum"))]
        spread = " / ".join(f"{clock:.1f}" for clock in clocks) + f" ({seeds})"
        if round(report["asked_mhz"] * 1e6) != board.clock_hz:
            spread += f", {report['asked_mhz']:g} requested"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the report of a board ({error!r})") from None
    return Built(areas, spread)


def _cycles(network: str, board: Any, *, measure: bool) -> float:
    """Return cycles of one input with the memory of a board, estimated or counted by the RTL."""
    path = Path(__file__).with_name("models") / f"{network}.tflite"
    program = compile_graph(load(path), board.config, 1)
    if measure:
        return _counted(program, board.config, board.memory_latency, board.memory_bandwidth)
    from celosia.sim.timing.cycles import COSTS, estimate

    costs = COSTS._replace(memory=board.memory_latency, bandwidth=board.memory_bandwidth)
    mains = (section for part in program.parts for section in part.mains)
    return sum(estimate(section.code, board.config, costs).total for section in mains)


def _counted(program: Program, config: Config, latency: int, bandwidth: float) -> float:
    device = backends.open_device(
        "rtl", config, program.memory_bytes, latency=latency, bandwidth=bandwidth
    )
    x = [np.zeros((1, *port.shape), port.dtype) for port in program.inputs]
    with Session(program, device) as session:
        session.run(x)
        cycles = session.statistics.cycles
    assert cycles is not None
    return cycles


def as_markdown(
    boards: Mapping[str, Any],
    built: Mapping[str, Built | None],
    paces: Mapping[str, Mapping[str, float]],
) -> str:
    """Return the table.

    - ``boards``: by name.
    - ``built``: results of the last build of each; None without one.
    - ``paces``: for each board and network, inputs a second.
    """
    from celosia.hw.flow.parts import COLUMNS

    titles = ["board", "core", *COLUMNS, "Fmax, MHz (seeds)", "clock, MHz", "GOPS"]
    lines = [[*titles, *(f"`{network}`" for network in _NETWORKS)]]
    lines.append(["---"] * len(lines[0]))
    for name, board in boards.items():
        config = board.config
        peak = 2 * config.rows * config.columns * board.clock_hz / 1e9
        took = built[name] or Built([""] * len(COLUMNS), "not built")
        lines.append(
            [
                f"`{name}`",
                f"`{config.name}`",
                *took.areas,
                took.spread,
                " / ".join(f"{hz / 1e6:g}" for hz in dict.fromkeys(board.clocks)),
                f"{peak:.1f}",
                *(f"{paces[name][network]:,.0f}" for network in _NETWORKS),
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
