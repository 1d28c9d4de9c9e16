"""Finds and runs the tools of the flow."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from celosia.hw.arch.extras import install_command

#: Takes a line of progress.
Progress = Callable[[str], None]


class ToolError(RuntimeError):
    """A tool of the flow failed; its words are in the log that is named."""


def find(name: str) -> str:
    """Return a tool: the system's where there is one, else the one that PyPI has.

    Raises
    ------
    ToolError
        If there is neither.
    """
    beside = str(Path(sys.executable).parent)
    packaged = f"yowasp-{name}"
    command = (
        shutil.which(name)
        or shutil.which(name, path=beside)
        or shutil.which(packaged)
        or shutil.which(packaged, path=beside)
    )
    if command is None:
        raise ToolError(
            f"{name}: wanted {name} or {packaged} on PATH, found none ({install_command('synth')})"
        )
    return command


def version(name: str) -> str:
    """Return the version line of a tool; raises ToolError as ``find``."""
    found = subprocess.run([find(name), "--version"], capture_output=True, text=True, check=False)
    return (found.stdout + found.stderr).strip().partition("\n")[0]


@contextmanager
def alone(directory: Path, report: Progress = lambda line: None) -> Iterator[None]:
    """Keep other runs out of a folder, which is made; tools write files of fixed names there."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another run in {directory}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def knows(name: str, option: str) -> bool:
    """Return whether a tool has an option by its help: packaged ones lack some.

    Raises
    ------
    ToolError
        If there is no such tool.
    """
    return option in _help(find(name))


@lru_cache
def _help(command: str) -> str:
    found = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    return found.stdout + found.stderr


@lru_cache
def _with_parent() -> tuple[str, ...]:
    """Return words before a command that end it with this process, however that ends."""
    found = shutil.which("setpriv")
    words = (found, "--pdeathsig", "KILL", "--") if found else ()
    # There are systems with another setpriv, and some that forbid it.
    usable = words and not subprocess.run([*words, "true"], capture_output=True).returncode
    return words if usable else ()


def run(name: str, arguments: list[str], log: Path, watch: Progress = lambda line: None) -> None:
    """Run a tool in the folder of its log.

    Parameters
    ----------
    name : str
        Of the tool, as its own makers call it.
    arguments : list of str
        What follows on the command line.
    log : Path
        File for the output of the tool.
    watch : function of str
        Called with each line of output; the tool is ended if it raises.

    Raises
    ------
    ToolError
        If there is no such tool, or it fails.
    """
    command = find(name)
    with (
        log.open("w", buffering=1) as words,
        subprocess.Popen(
            [*_with_parent(), command, *arguments],
            cwd=log.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                words.write(line)
                watch(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ToolError(f"{name}: exit code {process.returncode}; its words are in {log}")
