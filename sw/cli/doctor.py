"""``celosia doctor``: programs and packages of this machine, features that lack one."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from celosia.sw.cli.arguments import Commands
from celosia.sw.cli.messages import Missing
from celosia.sw.tools import Item, items
from celosia.sw.version import __version__


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("doctor", "list the programs and packages that are there or missing", run)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print the list; fail if ``celosia demo`` lacks something.

    Raises Missing with the names of the missing ones.
    """
    tools = list(items())
    lacking = [item.name for item in tools if item.demo and item.version is None]
    python = ".".join(map(str, sys.version_info[:3]))
    if arguments.json:
        report = {"celosia": __version__, "python": python, "demo": not lacking}
        print(json.dumps({**report, "items": [asdict(item) for item in tools]}, indent=2))
    else:
        print(f"celosia {__version__}, Python {python}\n")
        print(_listed(tools), end="")
    if lacking:
        raise Missing(f"celosia demo lacks {', '.join(lacking)}")


def _listed(tools: Sequence[Item]) -> str:
    """Return the installed items as a table, then the commands that install the others."""
    width = max(len(item.name) for item in tools)
    there = [item for item in tools if item.version is not None]
    long = max((len(item.version or "") for item in there), default=0)
    lines = [f"{i.name:<{width}}  {i.version:<{long}}  {i.feature}".rstrip() for i in there]
    missing = [item for item in tools if item.version is None]
    if missing:
        lines += ["", "missing"]
    for item in missing:
        lines += [f"{item.name:<{width}}  {item.feature}", f"{'':<{width}}  {item.install}"]
    return "\n".join(lines) + "\n"
