"""Commands that install the optional packages of Celosia, for messages."""

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

#: Top folder of the working tree that this module lies in, if it is one.
_ROOT = Path(__file__).resolve().parents[2]
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
_OWN = re.compile(r"celosia\[([\w,-]+)\]")


class ToolError(RuntimeError):
    """A program of others failed, or is missing; the message is one line."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra into the running Python.

    It is one that works here: the working tree's, or the packages' own names where Celosia was
    installed from a wheel.

    Parameters
    ----------
    extra : str
        One of ``project.optional-dependencies`` in ``pyproject.toml``; empty for the packages that
        Celosia always needs.

    Raises
    ------
    ValueError
        If the installed package knows no such extra.
    """
    pip = Path(sys.prefix) / "bin" / "pip"
    here = Path.cwd()
    words = [str(pip.relative_to(here) if pip.is_relative_to(here) else pip), "install"]
    if (_ROOT / "pyproject.toml").is_file():
        folder = "." if here == _ROOT else str(_ROOT)
        return shlex.join([*words, "-e", f"{folder}[{extra}]" if extra else folder])
    return shlex.join([*words, *requirements(extra)])


def requirements(extra: str) -> list[str]:
    """Return the packages of an extra with their versions, those of extras that it names included.

    Raises
    ------
    ValueError
        If the installed package knows no such extra, or Celosia is not installed.
    """
    try:
        listed = requires("celosia") or []
    except PackageNotFoundError:
        raise ValueError("celosia: wanted an installed package, found modules alone") from None
    found: list[str] = []
    for requirement, _, condition in (line.partition(";") for line in listed):
        if extra not in (_EXTRA.findall(condition) or [""]):
            continue
        own = _OWN.match(requirement)
        names = own[1].split(",") if own else []
        found += [each for name in names for each in requirements(name)] or [requirement.strip()]
    if not found:
        raise ValueError(f"extra: wanted one of the package celosia, got {extra!r}")
    return list(dict.fromkeys(found))
