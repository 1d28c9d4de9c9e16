"""Arguments that several commands share: their types, their options and their defaults."""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import PRESETS, preset
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.parts import MOST_BATCH
from celosia.sw.runtime.backends import DEVICES, device_name
from celosia.sw.runtime.session import InputError
from celosia.sw.workers.spread import Workers

_PRESET = f"one of {', '.join(PRESETS)}, then changes as ,field=value"
#: Folder of the syntheses of cores, unless an option gives it.
SYNTHESES = Path("build/synth")
#: More digits has no count and no seed.
_DIGITS = 18

Run = Callable[[argparse.Namespace], None]


class Commands(Protocol):
    """Makes the parsers of commands."""

    def __call__(self, name: str, text: str, run: Run) -> argparse.ArgumentParser:
        """Return the parser of the command ``name``, which ``run`` carries out."""
        ...


class Parser(argparse.ArgumentParser):
    """A parser with error messages of one line."""

    def error(self, message: str) -> NoReturn:
        """End the process with the message."""
        words = [*(f"{word}:" for word in self.prog.split()[1:]), *message.split()]
        self.exit(2, f"celosia: {' '.join(words)}\n")


def joined(words: Sequence[str]) -> list[str]:
    """Return the words of a command; values with a minus, as -1:1, belong to the option before."""
    result: list[str] = []
    for word in words:
        if result and re.match(r"-[\d.]", word) and re.fullmatch("--[a-z-]+", result[-1]):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


def whole(text: str, least: int = 1) -> int:
    """Return a whole number of at least ``least``."""
    if len(text) > _DIGITS:
        shown = f"{text[:_DIGITS]}..."
        raise argparse.ArgumentTypeError(f"wanted at most {_DIGITS} digits, got {shown!r}")
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"wanted a whole number of at least {least}, got {text!r}")
    return int(text)


def seeds(text: str) -> int:
    """Return a whole number of at least 0."""
    return whole(text, 0)


def number(text: str) -> float:
    """Return any number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"wanted a number, got {text!r}") from None


def megahertz(text: str) -> float:
    """Return a clock of 1 to 1000 MHz."""
    if not 1 <= (clock := number(text)) <= 1000:
        raise argparse.ArgumentTypeError(f"wanted 1 to 1000 MHz, got {text!r}")
    return clock


def pixel_range(text: str) -> tuple[float, float]:
    """Return the numbers that the pixels 0 and 255 stand for."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low != high):
        raise argparse.ArgumentTypeError(f"wanted LOW:HIGH, for instance -1:1, got {text!r}")
    return low, high


def _read_by(function: Callable[[str], Any], prefix: str = "") -> Callable[[str], Any]:
    """Return a type of arguments; ``prefix`` is left out of the function's messages."""

    def read(text: str) -> Any:
        try:
            return function(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(prefix)) from None

    return read


def board_of(name: str) -> Any:
    """Return a board of ``constraints``, or of a file like those; raises InputError for others."""
    from celosia.hw.litex.boards import BOARDS, board_named

    try:
        board = board_named(name)
    except ValueError as error:
        raise InputError(f"board: {error}") from None
    if board is None:
        raise InputError(f"board: wanted one of {', '.join(BOARDS)}, got {name!r}")
    return board


_config = _read_by(preset)


def add_preset(
    parser: argparse.ArgumentParser, default: Config | None = PRESETS["edge"], text: str = ""
) -> None:
    """Add the option that chooses the core; the help has ``text`` as default, or its name."""
    text = text or (default.name if default else "")
    parser.add_argument(
        "--preset", type=_config, default=default, metavar="P", help=f"{_PRESET} ({text})"
    )


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the option that checks instructions for a core."""
    parser.add_argument(
        "--check", type=_config, metavar="P", help="core to check fields, ranges and semaphores for"
    )


def add_output(parser: argparse.ArgumentParser, text: str, **settings: Any) -> None:
    """Add the option that names the file to write."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=text, **settings)


def add_files(parser: Any, option: str, what: str, text: str, **settings: Any) -> None:
    """Add an option that names a file each time it is given; ``parser`` may be a group."""
    text = f"{text}; may be repeated"
    settings = {"default": [], **settings}
    parser.add_argument(option, action="append", metavar=what, help=text, **settings)


def add_batch(parser: argparse.ArgumentParser, default: int | None, text: str) -> None:
    """Add the option that chooses the inputs of one run of the program."""
    parser.add_argument("--batch", type=_batch, default=default, metavar="N", help=text)


def _batch(text: str) -> int:
    count = whole(text)
    if count > MOST_BATCH:
        raise argparse.ArgumentTypeError(
            f"wanted 1 to {MOST_BATCH} inputs of one run, got {count}; more run one after another"
        )
    return count


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the option that fixes the free extents of inputs; ``shapes_of`` reads it."""
    text = "extents of an input of an .onnx file that are free, as 1,3,224,224; may be repeated"
    parser.add_argument(
        "--shape", action="append", type=_shape, default=[], metavar="[NAME=]N,N,...", help=text
    )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the name of an input, empty for the only one, and its shape."""
    name, _, extents = text.rpartition("=")
    return name, tuple(whole(extent.strip()) for extent in extents.split(","))


def shapes_of(arguments: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs that the arguments fix, by name."""
    return dict(arguments.shape)


def add_device(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option that chooses the device."""
    text = f"where to run: {', '.join(DEVICES)} ({default})"
    parser.add_argument(
        "--device", type=_read_by(device_name, "device: "), default=default, metavar="D", help=text
    )


def add_cores(parser: argparse.ArgumentParser) -> None:
    """Add the options that divide the inputs among the cores of a pod."""
    parser.add_argument(
        "--cores", type=whole, default=1, metavar="N", help="of a pod: 1, 2, 4, 8 or 16 (1)"
    )
    parser.add_argument("--ports", type=whole, default=1, metavar="P", help="of its memory (1)")


def add_workers(parser: argparse.ArgumentParser, default: int = 1) -> None:
    """Add the options that divide work among processes; ``workers_of`` reads them."""
    parser.add_argument(
        "--workers", type=whole, default=default, metavar="W", help=f"processes ({default})"
    )
    parser.add_argument(
        "--scheduler",
        type=_address,
        metavar="tcp://HOST:PORT",
        help="of a Dask cluster, instead of processes here",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the same work after it was stopped"
    )


def _address(text: str) -> str:
    if not re.fullmatch(r"(\w+://)?[^/\s]+:\d+", text):
        raise argparse.ArgumentTypeError(f"wanted tcp://HOST:PORT, got {text!r}")
    return text


def workers_of(arguments: argparse.Namespace) -> Workers:
    """Return the processes that the arguments name."""
    return Workers(arguments.workers, arguments.scheduler, arguments.resume)


def add_machine(parser: argparse.ArgumentParser, core: Config | None = PRESETS["edge"]) -> None:
    """Add the options of core and external memory; ``settle`` fills in those left out."""
    add_preset(parser, None, core.name if core else "that of the program, or edge")
    parser.set_defaults(core=core)
    parser.add_argument(
        "--latency",
        type=whole,
        metavar="CYCLES",
        help="of the external memory, on rtl (32)",
    )
    parser.add_argument(
        "--bandwidth",
        type=number,
        metavar="BEATS",
        help="of the external memory per cycle, on rtl (1.0)",
    )
    parser.add_argument(
        "--board",
        type=_read_by(board_of, "board: "),
        metavar="BOARD",
        help="take core, memory and clock of this board",
    )


def add_waves(parser: argparse.ArgumentParser) -> None:
    """Add the options that write the waves of a simulated core."""
    parser.add_argument(
        "--waves",
        type=Path,
        metavar="FILE.fst",
        help="write the core's signals, on rtl; views for GTKWave and Surfer in the same folder",
    )
    parser.add_argument(
        "--waves-cycles",
        type=_cycles,
        metavar="FIRST:LAST",
        help="cycles since reset to write, the last one not (0:20000)",
    )


def _cycles(text: str) -> tuple[int, int]:
    """Return the first cycle, and the one after the last."""
    first, _, last = text.partition(":")
    cycles = seeds(first), whole(last)
    if cycles[0] >= cycles[1]:
        raise argparse.ArgumentTypeError(f"wanted FIRST below LAST, got {text!r}")
    return cycles


def wave_files(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Return the files that the waves of a run take.

    Raises InputError if the options of waves do not go together, or with others.
    """
    waves = arguments.waves
    if waves is None:
        if arguments.waves_cycles:
            raise InputError("--waves-cycles: wanted --waves FILE.fst, too")
        return ()
    if arguments.device != "rtl" or workers_of(arguments) != Workers():
        raise InputError("--waves: wanted the device rtl in one process (--device rtl)")
    if waves.suffix != ".fst":
        raise InputError(f"--waves: wanted a file that ends in .fst, got {waves}")
    return waves, waves.with_suffix(".gtkw"), waves.with_suffix(".sucl")


def device_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``open_session``: cores; external memory and waves, if simulated.

    Raises InputError for options of external memory without effect.
    """
    options: dict[str, Any] = {}
    if getattr(arguments, "cores", 1) > 1:
        options |= {"cores": arguments.cores, "ports": arguments.ports}
    if arguments.device != "rtl":
        for name in arguments.of_memory:
            raise InputError(f"--{name}: wanted the device rtl, got {arguments.device}")
        return options
    options |= {"latency": arguments.latency, "bandwidth": arguments.bandwidth}
    if getattr(arguments, "waves", None):
        options["waves"] = (arguments.waves, *(arguments.waves_cycles or (0, 20_000)))
    return options


def settle(arguments: argparse.Namespace) -> None:
    """Fill in the options of core and memory that were left out: the board's, else the usual.

    ``preset`` stays None where neither a board nor the command names a core. ``of_memory`` becomes
    the names of the options of memory that the user set.
    """
    if not hasattr(arguments, "bandwidth"):
        return
    names, board = ("latency", "bandwidth"), arguments.board
    arguments.of_memory = [name for name in names if getattr(arguments, name) is not None]
    usual = (arguments.core, 32, 1.0)
    if board:
        board = arguments.board = replace(board, config=arguments.preset or board.config)
        usual = (board.config, board.memory_latency, board.memory_bandwidth)
    for name, value in zip(("preset", *names), usual, strict=True):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)


def add_signature(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a signature of a ``.tflite`` file."""
    text = "signature of a .tflite file, or subgraph without one, in place of the first subgraph"
    parser.add_argument("--signature", metavar="NAME", help=text)


def report_choices(graph: Graph, signature: str | None) -> None:
    """Print a note if a file has other signatures or subgraphs, and the user chose none."""
    if graph.choices and signature is None:
        names = ", ".join(map(repr, graph.choices))
        read = f"signature {graph.signature!r}" if graph.signature else "a subgraph"
        text = f"{graph.name}: {read} is taken; --signature takes another: {names}"
        print(f"celosia: note: {text}", file=sys.stderr)
