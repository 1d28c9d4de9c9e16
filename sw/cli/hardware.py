"""The commands that make hardware: Verilog, synthesis, bitstreams and boards."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from celosia.hw.arch.pod import PodConfig
from celosia.sw import boards
from celosia.sw.cli import chip
from celosia.sw.cli.arguments import (
    SYNTHESES,
    Commands,
    add_cores,
    add_output,
    add_preset,
    board_of,
    megahertz,
    seeds,
    whole,
)
from celosia.sw.cli.messages import Missing, needed_packages, reporter
from celosia.sw.export.files import verilog_files, verilog_header
from celosia.sw.files import directory_of, json_bytes, writable, write_atomically
from celosia.sw.runtime.session import InputError

_LOADER = "openFPGALoader"
_BOARD = "name (docs/reference/boards.md), file like constraints/*.toml, target of litex-boards"


def run_verilog(arguments: argparse.Namespace) -> None:
    """Write the Verilog of a core, a pod or a block with its waivers; ``--all`` adds files."""
    from celosia.hw.verilog.build import block_verilog, description
    from celosia.sim.rtl.converted import core_verilog

    config, path = arguments.preset, arguments.output
    pod = PodConfig(config, arguments.cores, arguments.ports) if arguments.cores > 1 else None
    if pod and arguments.all:
        raise InputError(f"--all: wanted one core, got {pod.cores}")
    standard = arguments.standard_axi or bool(arguments.ip_xact)
    if arguments.block is not None and (pod or arguments.all or standard):
        raise InputError("--block: wanted no --cores, --all, --standard-axi or --ip-xact beside it")
    writable(path)
    contents = verilog_files(config, path.name, everything=arguments.all)
    for name in contents:
        writable(path.with_name(name))
    if xml := arguments.ip_xact:
        writable(xml)
        if xml.resolve() in (path.with_name(name).resolve() for name in (path.name, *contents)):
            raise InputError(f"--ip-xact: wanted a file of its own, got {xml}")
    progress = reporter() if sys.stderr.isatty() else lambda line: None
    if arguments.block is not None:
        try:
            text = block_verilog(config, arguments.block, report=progress)
        except ValueError as error:
            raise InputError(str(error)) from None
    else:
        text = core_verilog(pod or config, standard=standard, report=progress)
    header = verilog_header(config, pod, arguments.block, standard=standard)
    contents = {path.name: header + text, **contents}
    files = {path.with_name(name): text.encode() for name, text in contents.items()}
    if xml:
        source = os.path.relpath(path, xml.parent)
        files[xml] = description(pod or config, source).encode()
    write_atomically(files)
    print(f"{path}: {config.name}, fingerprint {config.fingerprint:#010x}")
    for file in list(files)[1:]:
        print(file)


def run_synth(arguments: argparse.Namespace) -> None:
    """Synthesise, place and route a core; print its resources and its clock."""
    from celosia.hw.flow.parts import PARTS, part_named

    chip.require_effect(arguments)
    if arguments.liberty:
        return chip.run(arguments, reporter())
    config = arguments.preset
    part, seeds = part_named(arguments.part), range(1, arguments.seeds + 1)
    if part is None or not part.is_open:
        known = ", ".join(name for name, part in PARTS.items() if part.is_open)
        raise InputError(f"part: wanted one of {known}, got {arguments.part!r}")
    writable(arguments.json)
    directory = directory_of(arguments.directory)
    with needed_packages():
        from celosia.hw.flow.report import as_text
        from celosia.hw.synthesis import synthesise

        result = synthesise(
            config,
            seeds=seeds,
            directory=directory,
            part=part,
            clock=arguments.clock,
            report=reporter(),
        )
        figures = {"preset": config.name, **result.as_dict()} if arguments.json else {}
    if arguments.json:
        write_atomically({arguments.json: json_bytes(figures)})
    print(f"{config.name} on {part.title}")
    print(as_text(result), end="")


def _board(name: str) -> Any:
    """Return a board of ``constraints``, of a file like those, or of a target of litex-boards.

    Raises InputError if there is none that a core can be put on, Missing without litex-boards.
    """
    from celosia.hw.litex.boards import BOARDS, board_named

    try:
        if board := board_named(name):
            return board
        with needed_packages("litex"):
            from celosia.hw.litex.target import board_of_target

            board = board_of_target(name)
    except ValueError as error:
        raise InputError(str(error)) from None
    if board is None:
        known = f"{', '.join(BOARDS)}, a file of a board, or a target of litex-boards"
        raise InputError(f"board: wanted one of {known}, got {name!r}")
    return board


def _folder(arguments: argparse.Namespace) -> Path:
    return arguments.output or Path("build/boards") / Path(arguments.board).stem


def _bitstream(board: Any, directory: Path) -> Path:
    return directory / f"{board.name}{board.fpga.family.suffixes[1]}"


def run_build(arguments: argparse.Namespace) -> None:
    """Make the LiteX system of a board with a core, and its bitstream; print area and clock."""
    from celosia.sw.floorplan import draw

    board = _board(arguments.board)
    if arguments.preset:
        board = replace(board, config=arguments.preset)
    if arguments.clock:
        board = replace(board, clock_hz=round(arguments.clock * 1e6))
    board = replace(board, processor=arguments.cpu is not None)
    board = replace(board, cores=arguments.cores, ports=arguments.ports)
    core = board.config.name if board.cores == 1 else f"{board.cores} x {board.config.name}"
    if not (arguments.sources or board.fpga.is_open):
        raise InputError(f"{board.name}: wanted --sources, no open tool makes its bitstream")
    directory = directory_of(_folder(arguments))
    if arguments.sources:
        return _write_sources(board, directory, f"{core} on {board.title}")
    seeds = range(1, (arguments.seeds or board.seeds) + 1)
    with needed_packages("litex"):
        from celosia.hw.flow.report import as_text
        from celosia.hw.litex.build import build

        result, description = build(board, seeds=seeds, directory=directory, report=reporter())
        figures = {"board": board.name, "core": core, **result.as_dict()}
    assert result.bitstream is not None
    title = f"{core} on {board.title}, {result.fmax_mhz[2]:.1f} MHz"
    bitstream = _bitstream(board, directory)
    files = [
        ("bitstream", bitstream, result.bitstream.read_bytes()),
        ("description", *_description(directory, description)),
        ("report", directory / "report.json", json_bytes(figures)),
        ("floorplan", directory / "floorplan.png", draw(result.places, title=title)),
    ]
    _write(files, f"{core} on {board.title}\n{as_text(result)}")
    result.bitstream.unlink()
    if not result.is_fast_enough:
        raise Missing(
            f"{board.name}: wanted {board.clock_hz / 1e6:g} MHz, got {result.fmax_mhz[2]:.1f}; "
            "the bitstream may fail (a lower --clock, more --seeds)"
        )


def _write_sources(board: Any, directory: Path, title: str) -> None:
    """Write what the vendor's tools take, and the description of the system for the host."""
    with needed_packages("litex"):
        from celosia.hw.litex.build import design

        system, description = design(board)
    pins = directory / f"{system.name}{board.fpga.family.suffixes[0]}"
    files = [
        ("Verilog", directory / f"{system.name}.v", system.verilog.encode()),
        ("pins", pins, system.pins.encode()),
    ]
    for name, text in sorted(system.project.items()):
        kind = "clocks" if name.endswith(".sdc") else "project"
        files.append((kind, directory / name, text.encode()))
    files.append(("description", *_description(directory, description)))
    _write(files, f"{title}\n")


def _description(directory: Path, description: dict[str, Any]) -> tuple[Path, bytes]:
    """Return the file with the description of a system for the host, and its content."""
    return directory / "celosia.json", (json.dumps(description, indent=1) + "\n").encode()


def _write(files: Sequence[tuple[str, Path, bytes]], text: str) -> None:
    """Write files, all or none; print a text, then the kind and the path of each."""
    write_atomically({path: content for _, path, content in files})
    print(text, end="")
    for kind, path, _ in files:
        print(f"{kind:<16} {path}")


def run_flash(arguments: argparse.Namespace) -> None:
    """Load the bitstream of a board through openFPGALoader."""
    board, directory = board_of(arguments.board), _folder(arguments)
    bitstream = _bitstream(board, directory)
    if not bitstream.is_file():
        raise InputError(f"{bitstream}: no such file (celosia build {board.name})")
    loader = shutil.which(_LOADER)
    if loader is None:
        raise Missing(f"{_LOADER}: wanted it on PATH, found none (apt-get install openfpgaloader)")
    options = ["--write-flash"] if arguments.persistent else []
    code = subprocess.run([loader, "--board", board.loader, *options, str(bitstream)]).returncode
    if code:
        raise Missing(f"{_LOADER}: exit code {code}; is the board plugged in?")


def add_parsers(command: Commands) -> None:
    """Add the commands."""
    parser = command("verilog", "write the Verilog of a core, a pod or a block", run_verilog)
    add_preset(parser)
    add_cores(parser)
    add_output(parser, "file to write, and beside it one with waivers", required=True)
    parser.add_argument(
        "--all", action="store_true", help="also FuseSoC core, bench, SystemRDL, driver in C"
    )
    parser.add_argument(
        "--standard-axi",
        action="store_true",
        help="also a module celosia_axi: aclk, aresetn, m_axi_awaddr, s_axi_awaddr, ...",
    )
    parser.add_argument(
        "--ip-xact", type=Path, metavar="FILE", help="also celosia_axi, and its IP-XACT in a file"
    )
    parser.add_argument("--block", metavar="B", help="one block alone: matrix, vector, load, ...")

    parser = command("synth", "synthesise, place and route a core", run_synth)
    add_preset(parser)
    parser.add_argument(
        "--seeds", type=seeds, default=5, metavar="N", help="placements, 0 for none (5)"
    )
    parser.add_argument(
        "--part", default="LFE5U-85F", metavar="P", help="name or ordering code (LFE5U-85F)"
    )
    parser.add_argument(
        "--directory", type=Path, default=SYNTHESES, metavar="D", help="of the results"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    text = "asked of the router (90); for leakage of cells (that of the longest path)"
    parser.add_argument("--clock", type=megahertz, metavar="MHZ", help=text)
    chip.add_options(parser)

    parser = command("build", "make the bitstream of a board with a core", run_build)
    parser.add_argument("board", metavar="BOARD", help=_BOARD)
    add_preset(parser, None, "that of the board")
    add_cores(parser)
    parser.add_argument(
        "--seeds", type=whole, metavar="N", help="placements (those of the board: 5)"
    )
    parser.add_argument(
        "--clock",
        type=megahertz,
        metavar="MHZ",
        help="of core, and of memory unless it has its own",
    )
    parser.add_argument("--cpu", choices=("vexriscv",), help="processor beside the core")
    parser.add_argument(
        "--sources", action="store_true", help="only write Verilog, pins and project"
    )
    _add_folder(parser)

    parser = command("flash", "load a bitstream into a board", run_flash)
    parser.add_argument("board", metavar="BOARD", help="name, see docs/reference/boards.md")
    parser.add_argument(
        "--persistent", action="store_true", help="into its flash memory, to stay without power"
    )
    _add_folder(parser)

    parser = command("boards", "list the size and speed of all boards", boards.run_boards)
    boards.add_arguments(parser)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="of the bitstream (build/boards/BOARD)"
    )
