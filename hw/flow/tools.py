"""Finds and runs the tools of the flow."""

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NamedTuple

from celosia.hw.environment.caches import settle_caches
from celosia.hw.environment.extras import ToolError, install_command, requirements

#: Takes a line of progress.
Progress = Callable[[str], None]


class Tool(NamedTuple):
    """Program of a tool, its version, empty if it reports none, and programs that are too old."""

    path: str
    version: str
    older: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name of the program, and its version."""
        return f"{Path(self.path).name} {self.version}".rstrip()

    def __str__(self) -> str:
        words = [self.path, *filter(None, [self.version])]
        return " ".join(words) + "".join(f"; not {one}: too old" for one in self.older)


def choose(name: str) -> Tool:
    """Return the tool to use: the system's if it is new enough, else the one that PyPI has.

    The oldest version is that of the package in the extra ``synth``.

    Raises
    ------
    ToolError
        If there is neither.
    """
    settle_caches()
    beside = str(Path(sys.executable).parent)
    packaged = f"yowasp-{name}"
    oldest, older = _oldest(packaged), []
    for word in (name, packaged):
        for folder in (None, beside):
            path = shutil.which(word, path=folder)
            if path is None:
                continue
            version = _reported(path)
            if not version or _numbers(version) >= _numbers(oldest):
                return Tool(path, version, tuple(older))
            older += [one for one in (f"{path} {version}",) if one not in older]
    newer = f"{name} {oldest}".rstrip()
    present = ", ".join(older) or "none"
    raise ToolError(
        f"{name}: wanted {newer} or {packaged} on PATH, found {present} ({install_command('synth')})"
    )


def find(name: str) -> str:
    """Return the program of a tool; raises ToolError as ``choose``."""
    return choose(name).path


def _oldest(package: str) -> str:
    """Return the oldest version of a package that the extra takes; empty if it names none."""
    try:
        listed = requirements("synth")
    except ValueError:
        return ""
    matches = (re.fullmatch(rf"{re.escape(package)}>=([\d.]+).*", one) for one in listed)
    return next((match[1] for match in matches if match), "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


@lru_cache
def _reported(path: str) -> str:
    """Return the version of a program, as numbers between dots; empty if it reports none."""
    with suppress(PackageNotFoundError):
        return metadata.version(Path(path).name)
    try:
        lines = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    number = re.search(r"\d+(?:\.\d+)+", lines.stdout + lines.stderr)
    return number[0] if number else ""


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
    result = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


@lru_cache
def _with_parent() -> tuple[str, ...]:
    """Return words before a command that end it with this process, however that ends."""
    setpriv = shutil.which("setpriv")
    words = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
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
    execute(name, find(name), arguments, log, watch)


def execute(
    name: str, path: str, arguments: Sequence[str], log: Path, watch: Progress = lambda line: None
) -> None:
    """Run the program of a tool as ``run`` does."""
    with (
        log.open("w", buffering=1) as words,
        subprocess.Popen(
            [*_with_parent(), path, *arguments],
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
