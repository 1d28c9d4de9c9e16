"""The commands that make hardware: Verilog, synthesis, bitstreams and boards."""

import argparse
from pathlib import Path

from celosia.sw import boards, hardware
from celosia.sw.cli.arguments import (
    Commands,
    add_cores,
    add_output,
    add_preset,
    number,
    seeds,
    whole,
)

_BOARD = "name (docs/reference/boards.md), file like constraints/*.toml, target of litex-boards"


def add_parsers(command: Commands) -> None:
    """Add the commands."""
    made = command("verilog", "write the Verilog of a core or a pod", hardware.run_verilog)
    add_preset(made)
    add_cores(made)
    add_output(made, "file to write, and beside it one with waivers", required=True)
    made.add_argument(
        "--all", action="store_true", help="also FuseSoC core, bench, SystemRDL, driver in C"
    )

    made = command("synth", "synthesise, place and route a core", hardware.run_synth)
    add_preset(made)
    made.add_argument(
        "--seeds", type=seeds, default=5, metavar="N", help="placements, 0 for none (5)"
    )
    made.add_argument(
        "--part", default="LFE5U-85F", metavar="P", help="name or ordering code (LFE5U-85F)"
    )
    made.add_argument(
        "--directory", type=Path, default=Path("build/synth"), metavar="D", help="of the results"
    )

    made = command("build", "make the bitstream of a board with a core", hardware.run_build)
    made.add_argument("board", metavar="BOARD", help=_BOARD)
    add_preset(made, None)
    add_cores(made)
    made.add_argument("--seeds", type=whole, metavar="N", help="placements (those of the board: 5)")
    made.add_argument("--clock", type=number, metavar="MHZ", help="of core and memory")
    made.add_argument("--cpu", choices=("vexriscv",), help="processor beside the core")
    made.add_argument("--sources", action="store_true", help="only write Verilog, pins and project")
    _folder(made)

    made = command("flash", "load a bitstream into a board", hardware.run_flash)
    made.add_argument("board", metavar="BOARD", help="name, see docs/reference/boards.md")
    made.add_argument(
        "--persistent", action="store_true", help="into its flash memory, to stay without power"
    )
    _folder(made)

    made = command("boards", "list the size and speed of all boards", boards.run_boards)
    boards.add_arguments(made)


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="of the bitstream (build/boards/BOARD)"
    )
