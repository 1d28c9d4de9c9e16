"""Command line of all campaigns: one clear line for every error."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from celosia.sw.cli import interrupted
from celosia.sw.cli.arguments import add_workers, seeds
from celosia.sw.cli.messages import BAD_INPUT, FAILED, line_of

#: Packages with a module ``command``, which has ``add_arguments`` and ``run``.
CAMPAIGNS = ("coverage", "flips", "malformed", "mutation")


class _Parser(argparse.ArgumentParser):
    """Parser whose error messages take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def add_draw(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of what is drawn and spread over processes."""
    parser.add_argument("--seed", type=seeds, default=0, metavar="S", help="of everything (0)")
    add_workers(parser, os.cpu_count() or 1)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines; all columns but the first are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run a campaign; return 0, 1 after a failure or without a prerequisite, 2 for bad input."""
    parser = _Parser(prog="campaigns")
    parser.add_argument("campaign", choices=CAMPAIGNS)
    name = parser.parse_args(arguments[:1]).campaign
    command = importlib.import_module(f"{name}.command")
    parser = _Parser(prog=name, description=command.__doc__)
    command.add_arguments(parser)
    options = parser.parse_args(arguments[1:])
    try:
        command.run(options)
    except BAD_INPUT as error:
        return _complain(name, error, 2)
    except FAILED as error:
        return _complain(name, error, 1)
    except KeyboardInterrupt as error:
        return _complain(name, interrupted(error), 130)
    return 0


def _complain(name: str, what: object, code: int) -> int:
    print(f"{name}: {line_of(what)}", file=sys.stderr)
    return code
