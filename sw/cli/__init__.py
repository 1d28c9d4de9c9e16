"""The command ``celosia``: its commands, and one clear line for each error."""

import gc
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from celosia.sw.version import __version__

if TYPE_CHECKING:
    import argparse

    from celosia.sw.cli.arguments import Commands, Run

#: Modules of this package with commands, in the order of the help. Each has ``add_parsers``, which
#: makes the parser of each of its commands and names the function that carries it out.
MODULES = (
    "quantize",
    "train",
    "compile",
    "report",
    "profile",
    "assembly",
    "run",
    "eval",
    "networks",
    "models",
    "doctor",
    "hardware",
    "explore",
    "fuzz",
)


def _parser(words: Sequence[str]) -> "argparse.ArgumentParser":
    """Return the parser of a command line."""
    # Modules take a second to load: here, so that an interrupt finds ``main`` ready for it.
    from celosia.sw.cli import plugins
    from celosia.sw.cli.arguments import Parser

    parser = Parser(prog="celosia", description="Open tensor processing unit.")
    parser.add_argument("--version", action="version", version=f"celosia {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND")

    def command(name: str, text: str, run: "Run") -> "argparse.ArgumentParser":
        subparser = subparsers.add_parser(name, help=text, description=text)
        subparser.set_defaults(run=run)
        return subparser

    commands: Commands = command
    for name in MODULES:
        import_module(f"celosia.sw.cli.{name}").add_parsers(commands)
    known = list(subparsers.choices)
    chosen = next((word for word in words if not word.startswith("-")), None)
    # Entry points are looked up only if they matter.
    if chosen not in known:
        others = plugins.add_commands(commands, known, chosen)
        if chosen is not None and chosen not in others:
            parser.error(plugins.unknown(chosen, [*known, *others]))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the command's name; those of the process unless given.

    Returns
    -------
    int
        0; 2 for bad input; 1 where the machine lacks something, a device fails or a core errs;
        130 when interrupted.
    """
    # A compiler keeps most of its many records: by default a fifth of its time looks for garbage.
    gc.set_threshold(50_000, 20, 20)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows another one; nothing is lost for it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _carried_out(arguments)
    except KeyboardInterrupt as error:
        return _complain(interrupted(error), 130)


def interrupted(error: KeyboardInterrupt) -> str:
    """Return the message of a command that was interrupted."""
    return ": ".join(["interrupted", *map(str, error.args)])


def _carried_out(arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code."""
    from celosia.sw.cli.arguments import joined, settle
    from celosia.sw.cli.messages import BAD_INPUT, FAILED, line_of

    try:
        words = joined(sys.argv[1:] if arguments is None else arguments)
        parser = _parser(words)
        parsed = parser.parse_args(words)
        if not hasattr(parsed, "run"):
            parser.print_help()
            return 0
        settle(parsed)
        parsed.run(parsed)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except BAD_INPUT as error:
        return _complain(line_of(error), 2)
    except FAILED as error:
        return _complain(line_of(error), 1)
    return 0


def _complain(line: str, code: int) -> int:
    print(f"celosia: {line}", file=sys.stderr)
    return code
