"""``celosia explore``: cores that fit a board or a part, and the fastest of them for networks."""

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from celosia.hw.arch.config import Config
from celosia.sw.cli.arguments import (
    SYNTHESES,
    Commands,
    add_files,
    add_preset,
    add_workers,
    board_of,
    megahertz,
    whole,
    workers_of,
)
from celosia.sw.cli.messages import needed_packages, reporter
from celosia.sw.explore.area import (
    COLUMNS_OF_CELLS,
    LEFT_OUT,
    Model,
    known_syntheses,
    read_syntheses,
)
from celosia.sw.explore.search import (
    COMB,
    MOST,
    Candidate,
    Room,
    clock_of,
    cycles_of,
    fitting,
    front,
    room_of,
    text_of,
)
from celosia.sw.files import directory_of, json_bytes, read_file, writable, write_atomically
from celosia.sw.frontend.source import files_of, load
from celosia.sw.ir.graph import Graph
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import model_path
from celosia.sw.workers.spread import spread

if TYPE_CHECKING:
    from celosia.sw.explore.verify import Verification

#: Cells of a part that options give.
_CELLS = ("luts", "dsps", "rams")
#: Heads of the columns of cores, and of measured figures.
_HEADS = ("core", "LUT", "FF", "DSP", "block RAM")
_COMPARED = ["core", "", "promised", "measured", "error"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("explore", "find the cores that fit a board and run models fastest", run)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=".tflite or .onnx file, or a shipped model"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--board", metavar="B", help="beside memory controller and bridge")
    place.add_argument("--part", metavar="P", help="an ECP5 with the core alone")
    for name in _CELLS:
        text = f"{name[:-1].upper()} that the core may take"
        parser.add_argument(f"--{name}", type=whole, metavar="N", help=text)
    parser.add_argument("--clock", type=megahertz, metavar="MHZ", help="clock of all cores")
    add_preset(parser)
    add_files(parser, "--synthesis", "FILE", "also fit to this report of celosia synth --json")
    parser.add_argument("--errors", action="store_true", help="print the errors of the areas")
    text = "synthesise and simulate the N fastest cores that are printed: minutes to hours"
    parser.add_argument("--verify", type=whole, metavar="N", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all cores as JSON")
    add_workers(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the cores that nothing beats in time and area, and how to build the fastest."""
    if bool(arguments.models) == arguments.errors:
        raise InputError("explore: wanted a MODEL or --errors")
    if arguments.verify:
        if arguments.errors:
            raise InputError("--verify: wanted a MODEL for it, got --errors")
        from celosia.sw.explore.verify import require_tools

        require_tools()
    model = Model([*known_syntheses(), *_syntheses(arguments.synthesis)])
    if arguments.errors:
        print(_errors(model), end="")
        return
    models = [model_path(name) for name in arguments.models]
    writable(arguments.json, sources=files_of(*models))
    board, part, room = _place(arguments)
    base = arguments.preset
    if base.cells not in ("portable", *COLUMNS_OF_CELLS):
        raise InputError(f"explore: wanted a --preset with cells of an ECP5, got {base.cells}")
    graphs = [load(path) for path in models]
    cores = fitting(base, part, room, model)
    if arguments.dsps is not None:
        # Without its cells, the core would take the multipliers of the whole part.
        cores = [(part.suited(config), area) for config, area in cores]
    jobs = [(config, _memory(board, config)) for config, _ in cores]
    key = repr(jobs).encode() + b"".join(map(read_file, models))
    shards = spread(partial(cycles_of, graphs=graphs), jobs, workers_of(arguments), key=key)
    counts = list(tqdm(shards, total=len(jobs), unit="core", delay=1, disable=None))
    candidates = [
        Candidate(config, area, cycles, arguments.clock or _clock(board, part, room, area.luts))
        for (config, area), cycles in zip(cores, counts, strict=True)
        if not isinstance(cycles, str)
    ]
    if not candidates:
        reason = f": {counts[-1]}" if counts else ""
        raise InputError(f"explore: no core fits that runs all models{reason}")
    best = front(candidates)
    print(_table(best, arguments.models), end="")
    core = text_of(best[0].config)
    place = f"build {board.name}" if board else "synth"
    option = "" if board else f" --part {part.name}"
    print(f"\ncelosia {place} --preset {core}{option}", flush=True)
    if others := [name for name in LEFT_OUT if getattr(base, name) != getattr(Config, name)]:
        print(f"explore: areas are those without {', '.join(others)}", file=sys.stderr)
    count = arguments.verify or 0
    checks = _verified(best[:count], graphs, board, part) if count else []
    if arguments.json:
        measured = {id(check.candidate): check for check in checks}
        figures = [_as_dict(one, measured.get(id(one)), is_best=one in best) for one in candidates]
        write_atomically({arguments.json: json_bytes(figures)})
    if checks:
        rows = [row for check in checks for row in check.rows(_names(arguments.models))]
        print(f"\n{_aligned([_COMPARED, *rows])}", end="")


def _verified(
    candidates: list[Candidate], graphs: list[Graph], board: Any, part: Any
) -> list["Verification"]:
    """Return the measured figures of cores."""
    from celosia.sw.explore.verify import verify

    report, result = reporter(), []
    fixed: dict[str, Any] = {"part": part, "directory": directory_of(SYNTHESES), "report": report}
    for one in candidates:
        with needed_packages():
            result.append(verify(one, graphs, memory=_memory(board, one.config), **fixed))
    return result


def _syntheses(paths: list[str]) -> list[Any]:
    result = []
    for path in paths:
        try:
            result += read_syntheses([json.loads(read_file(path))])
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
    return result


def _place(arguments: argparse.Namespace) -> tuple[Any, Any, Room]:
    """Return the board if there is one, the part, and the room on it."""
    from celosia.hw.flow.parts import ECP5, PARTS, part_named

    board = board_of(arguments.board) if arguments.board else None
    part = board.fpga if board else part_named(arguments.part or "LFE5U-85F")
    if part is None or part.family is not ECP5:
        known = ", ".join(name for name, one in PARTS.items() if one.family is ECP5)
        wrong = board.part if board else arguments.part
        raise InputError(f"explore: wanted a part of {known}, got {wrong}")
    luts, dsps, rams = (getattr(arguments, name) for name in _CELLS)
    room = room_of(part.multipliers, has_system=board is not None)
    multipliers = room.multipliers if dsps is None else dsps
    room = Room(
        room.luts if luts is None else COMB * luts,
        multipliers,
        room.memories if rams is None else rams,
    )
    return board, replace(part, multipliers=multipliers), room


def _memory(board: Any, config: Config) -> dict[str, float]:
    """Return latency and bandwidth of a board's memory for a core; one beat a cycle without."""
    if board is None:
        return {}
    own = replace(board, config=config)
    return {"latency": own.memory_latency, "bandwidth": own.memory_bandwidth}


def _clock(board: Any, part: Any, room: Room, luts: int) -> float:
    """Return the clock in MHz: of builds, but not above that of a board's design."""
    clock = clock_of(part.name, MOST * COMB * luts / room.luts)
    return min(clock, board.clock_hz / 1e6) if board else clock


def _table(candidates: list[Candidate], models: list[str]) -> str:
    """Return the table of cores, the fastest first."""
    heads = [*_HEADS, "MHz", *(f"{name}, cycles, ms" for name in _names(models))]
    rows = [heads]
    for one in candidates:
        times = [f"{n:,} {n / one.megahertz / 1e3:.3g}" for n in one.cycles]
        counts = [f"{count:,}" for count in one.area]
        rows.append([text_of(one.config), *counts, f"{one.megahertz:g}", *times])
    return _aligned(rows)


def _names(models: list[str]) -> list[str]:
    return [Path(name).stem for name in models]


def _aligned(rows: list[list[str]]) -> str:
    """Return a table, its first column aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _errors(model: Model) -> str:
    """Return the errors of LUT and FF at each synthesis, fitted with it and without it."""
    lines = ["cells core                          with it  without it"]
    for kind in ("LUT", "FF"):
        rows = model.errors(kind)
        lines += [f"{kind:<5} {name[:28]:<28} {a:+8.1%} {b:+10.1%}" for name, a, b in rows]
    return "\n".join(lines) + "\n"


def _as_dict(
    candidate: Candidate, check: "Verification | None", *, is_best: bool
) -> dict[str, Any]:
    """Return the figures of a core; fields: ``docs/reference/json.md``."""
    return {
        "preset": text_of(candidate.config),
        **_counts(candidate),
        "megahertz": candidate.megahertz,
        "seconds": candidate.seconds,
        "is_best": is_best,
        **({"measured": _counts(check)} if check else {}),
    }


def _counts(core: "Candidate | Verification") -> dict[str, Any]:
    """Return area and cycles of a core."""
    names = ("luts", "registers", "multipliers", "block_rams")
    return {**dict(zip(names, core.area, strict=True)), "cycles": core.cycles}
