"""The command ``celosia``: its commands, and one clear line for each error."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from celosia.sw.cli.arguments import Commands, Parser, Run, settle
from celosia.sw.cli.messages import BAD_INPUT, FAILED, interrupted, line_of
from celosia.sw.version import __version__

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
    "generate",
    "mlperf",
    "paper",
    "models",
    "doctor",
    "demo",
    "serve",
    "hardware",
    "fuzz",
)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="celosia", description="Open tensor processing unit.")
    parser.add_argument("--version", action="version", version=f"celosia {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, text: str, run: Run) -> argparse.ArgumentParser:
        made = subparsers.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    commands: Commands = command
    for name in MODULES:
        import_module(f"celosia.sw.cli.{name}").add_parsers(commands)
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
    parsed = _parser().parse_args(arguments)
    try:
        settle(parsed)
        parsed.run(parsed)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except BAD_INPUT as error:
        return _complain(error, 2)
    except FAILED as error:
        return _complain(error, 1)
    except KeyboardInterrupt as error:
        return _complain(interrupted(error), 130)
    return 0


def _complain(message: object, code: int) -> int:
    print(f"celosia: {line_of(message)}", file=sys.stderr)
    return code
