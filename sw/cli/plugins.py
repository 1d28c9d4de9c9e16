"""Commands of other packages: entry points of the group ``celosia.commands``."""

import argparse
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from celosia.hw.environment.extras import EXAMPLES, examples_command
from celosia.sw.cli.arguments import Commands, Run
from celosia.sw.cli.messages import Failure, line_of

#: Group of the entry points. The name of one is that of its command; its function has the interface
#: of ``add_parsers`` of the modules of ``celosia.sw.cli``, for this command alone.
GROUP = "celosia.commands"


def add_commands(command: Commands, known: Collection[str], name: str | None) -> list[str]:
    """Add the commands of installed packages, and return the names of all that there are.

    Parameters
    ----------
    command : Commands
        Makes the parser of a command.
    known : collection of str
        Commands that exist; no package replaces them.
    name : str or None
        The command to add; None adds all of them, with a remark in place of one that is broken.

    Returns
    -------
    list of str
        Names of the commands of packages.

    Raises
    ------
    Failure
        If the command ``name`` cannot be loaded.
    """
    entries = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in known}
    for other in sorted(entries):
        if name in (None, other):
            _add(command, entries[other], name is None)
    return sorted(entries)


def _add(command: Commands, entry: EntryPoint, is_help: bool) -> None:
    """Add a command, or a remark for the help if its package is broken."""
    names: list[str] = []

    def noted(name: str, text: str, run: Run) -> argparse.ArgumentParser:
        names.append(name)
        return command(name, text, run)

    try:
        entry.load()(noted)
    except Exception as error:  # Any: it is the code of others.
        package = entry.dist.name if entry.dist else entry.module
        reason = f"cannot be loaded from {package}: {type(error).__name__}: {error}"
        if not is_help:
            raise Failure(line_of(f"{entry.name}: {reason}")) from None
        if entry.name not in names:
            command(entry.name, line_of(reason).replace("%", "%%"), _refuse)


def _refuse(arguments: argparse.Namespace) -> None:
    """Refuse a command that the help lists as broken."""


def unknown(name: str, commands: Collection[str]) -> str:
    """Return the message for a command that does not exist."""
    text = f"wanted one of {', '.join(commands)}, got {name!r}"
    installed = any(
        entry.dist and entry.dist.name == EXAMPLES for entry in entry_points(group=GROUP)
    )
    if installed:
        return text
    return f"{text}; demo, generate, mlperf, paper and serve are examples: {examples_command()}"
