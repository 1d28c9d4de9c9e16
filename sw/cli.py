"""The command ``celosia``: arguments, and one clear line for everything that is wrong with them."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from celosia.hw.arch.config import PRESETS, Config, preset
from celosia.sw import boards, commands, fuzz, hardware
from celosia.sw.data import DATASETS
from celosia.sw.runtime.backends import DEVICES, device_name
from celosia.sw.runtime.device import DeviceError

__all__ = ["main"]

_PRESET = f"one of {', '.join(PRESETS)}, then changes as ,field=value"


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints take one line."""

    def error(self, message: str) -> NoReturn:
        words = [*self.prog.split()[1:], *message.split()]
        self.exit(2, f"celosia: {' '.join(words)}\n")


def _config(text: str) -> Config:
    try:
        return preset(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _device(text: str) -> str:
    try:
        return device_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("device: ")) from None


def _board(text: str) -> Any:
    try:
        return hardware.board_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("board: ")) from None


#: More digits has no count and no seed.
_DIGITS = 18


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        shown = f"{text[:_DIGITS]}..."
        raise argparse.ArgumentTypeError(f"wanted at most {_DIGITS} digits, got {shown!r}")
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"wanted a whole number of at least 1, got {text!r}")
    return int(text)


def _seeds(text: str) -> int:
    return 0 if text == "0" else _whole(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"wanted a number, got {text!r}") from None


def _version() -> str:
    try:
        return version("celosia")
    except PackageNotFoundError:
        return "not installed"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="celosia", description="Open tensor processing unit.")
    parser.add_argument("--version", action="version", version=f"celosia {_version()}")
    commands_of = parser.add_subparsers(metavar="COMMAND", required=True)

    def adder(room: ModuleType) -> "commands.Adder":
        def command(name: str, text: str) -> argparse.ArgumentParser:
            made = commands_of.add_parser(name, help=text, description=text)
            made.set_defaults(run=getattr(room, f"run_{name}"))
            return made

        return command

    _compiling(adder(commands))
    _running(adder(commands))
    _hardware(adder(hardware))
    made = adder(boards)("boards", "say of all boards what they take and how fast they are")
    boards.add_arguments(made)
    made = adder(fuzz)("fuzz", "run random programs on the simulated core")
    fuzz.add_arguments(made, _whole, _seeds)
    return parser


def _preset(parser: argparse.ArgumentParser, default: Config | None = PRESETS["edge"]) -> None:
    parser.add_argument("--preset", type=_config, default=default, metavar="P", help=_PRESET)


def _output(parser: argparse.ArgumentParser, text: str, **settings: Any) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=text, **settings)


def _compiling(command: "commands.Adder") -> None:
    made = command("compile", "compile a model to a program")
    made.add_argument("model", type=Path, metavar="MODEL", help=".tflite file")
    _output(made, "program to write", required=True)
    _preset(made)
    made.add_argument("--batch", type=_whole, default=1, metavar="N", help="inputs of one run")

    made = command("report", "say what each layer of a model takes")
    made.add_argument("model", type=Path, nargs="?", metavar="MODEL", help=".tflite file")
    made.add_argument(
        "--operators", action="store_true", help="say which operators there are, and where they run"
    )
    made.add_argument("--batch", type=_whole, default=1, metavar="N", help="inputs of one run")
    made.add_argument("--csv", type=Path, metavar="FILE", help="also write a table as CSV")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write a table as JSON")
    made.add_argument(
        "--measure", action="store_true", help="count the cycles of each layer on the RTL, too"
    )
    _machine(made)

    made = command("assemble", "translate assembly to instructions")
    made.add_argument("file", type=Path, metavar="FILE", help="text, an instruction a line")
    _output(made, "words of 64 bytes to write", required=True)

    made = command("disassemble", "translate instructions to assembly")
    made.add_argument("file", type=Path, metavar="FILE", help="words of 64 bytes, or a program")
    _output(made, "text to write instead of showing it")


def _machine(parser: argparse.ArgumentParser, core: Config | None = PRESETS["edge"]) -> None:
    """Add the options that say which core it is and what memory it has, see ``commands.settle``."""
    _preset(parser, None)
    parser.set_defaults(core=core)
    parser.add_argument(
        "--latency",
        type=_whole,
        metavar="CYCLES",
        help="of the external memory behind rtl (32)",
    )
    parser.add_argument(
        "--bandwidth",
        type=_number,
        metavar="BEATS",
        help="of the external memory behind rtl, per cycle (1.0)",
    )
    parser.add_argument(
        "--board", type=_board, metavar="BOARD", help="take core, memory and clock of this board"
    )


def _running(command: "commands.Adder") -> None:
    made = command("run", "run a model or a program on inputs")
    made.add_argument("model", type=Path, metavar="MODEL|PROGRAM")
    made.add_argument("--input", type=Path, required=True, metavar="X.npy", help="int8 or float")
    made.add_argument("--output", type=Path, required=True, metavar="Y.npy", help="int8 results")
    made.add_argument(
        "--device",
        type=_device,
        default="rtl",
        metavar="D",
        help=f"where to run: {', '.join(DEVICES)} (rtl)",
    )
    made.add_argument("--batch", type=_whole, metavar="N", help="inputs of one run (up to 64)")
    made.add_argument("--stats", type=Path, metavar="S.json", help="also write cycles and counters")
    _machine(made, None)

    made = command("eval", "say how often a model is right on a data set")
    made.add_argument("model", type=Path, metavar="MODEL", help=".tflite file")
    made.add_argument("--dataset", choices=DATASETS, required=True, help="its test images")
    made.add_argument(
        "--device",
        type=_device,
        default="machine",
        metavar="D",
        help=f"where to run: {', '.join(DEVICES)} (machine)",
    )
    made.add_argument(
        "--batch", type=_whole, default=16, metavar="N", help="images of one run (16)"
    )
    made.add_argument("--limit", type=_whole, metavar="N", help="the first N images alone")
    made.add_argument(
        "--png", type=Path, metavar="F", help="confusion matrix to draw (MODEL_confusion.png)"
    )
    made.add_argument("--stats", type=Path, metavar="S.json", help="also write all figures")
    _machine(made)

    made = command("demo", "classify handwritten digits on the simulated core")
    _output(made, "picture to write (celosia_demo.png)", default=Path("celosia_demo.png"))
    made.add_argument("--images", type=_whole, default=256, metavar="N", help="digits (256)")
    made.add_argument("--batch", type=_whole, default=64, metavar="N", help="digits of one run")
    _machine(made)


def _hardware(command: "commands.Adder") -> None:
    made = command("verilog", "write the Verilog of a core")
    _preset(made)
    _output(made, "file to write", required=True)

    made = command("synth", "synthesise, place and route a core")
    _preset(made)
    made.add_argument(
        "--seeds", type=_seeds, default=5, metavar="N", help="runs of the placer, 0 for none (5)"
    )
    made.add_argument(
        "--part", default="LFE5U-85F", metavar="P", help="what to build for (LFE5U-85F)"
    )
    made.add_argument(
        "--directory", type=Path, default=Path("build/synth"), metavar="D", help="for what is made"
    )

    made = command("build", "make the bitstream of a board")
    made.add_argument("board", metavar="BOARD", help="name, see docs/boards.md")
    _preset(made, None)
    made.add_argument("--seeds", type=_whole, default=5, metavar="N", help="runs of the placer (5)")
    made.add_argument("--clock", type=_number, metavar="MHZ", help="of core and memory")
    _folder(made)

    made = command("flash", "load a bitstream into a board")
    made.add_argument("board", metavar="BOARD", help="name, see docs/boards.md")
    made.add_argument(
        "--persistent", action="store_true", help="into its flash memory, to stay without power"
    )
    _folder(made)


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="of the bitstream (build/boards/BOARD)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the command's name; that of the process unless given.

    Returns
    -------
    int
        0; 2 for bad input; 1 where the machine lacks something, a device fails or a core errs;
        130 when interrupted.
    """
    parsed = _parser().parse_args(arguments)
    try:
        commands.settle(parsed)
        parsed.run(parsed)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except commands.BAD_INPUT as error:
        return _complain(error, 2)
    except (DeviceError, commands.Missing, fuzz.Difference) as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    return 0


def _complain(what: object, code: int) -> int:
    print(f"celosia: {commands.line_of(what)}", file=sys.stderr)
    return code
