"""Commands that install the optional packages of Celosia, for messages."""

import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

#: Top folder of the working tree that this module lies in, if it is one.
_ROOT = Path(__file__).resolve().parents[2]
#: Name of the package of the folder ``examples``.
EXAMPLES = "celosia-examples"


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
    words, here = _pip(), Path.cwd()
    if (_ROOT / "pyproject.toml").is_file():
        folder = "." if here == _ROOT else str(_ROOT)
        return shlex.join([*words, "-e", f"{folder}[{extra}]" if extra else folder])
    return shlex.join([*words, *requirements(extra)])


def _pip() -> list[str]:
    """Return the words that begin a command of the running Python's pip."""
    pip = Path(sys.prefix) / "bin" / "pip"
    here = Path.cwd()
    return [str(pip.relative_to(here) if pip.is_relative_to(here) else pip), "install"]


def examples_command() -> str:
    """Return the command that installs the examples into the running Python.

    A wheel comes without them: then the command is one for the folder of Celosia's sources.
    """
    folder = _ROOT / "examples"
    if not (folder / "pyproject.toml").is_file():
        return f"{shlex.join([*_pip(), './examples'])} in the folder of Celosia's sources"
    here = Path.cwd()
    place = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return shlex.join([*_pip(), "-e", str(place)])


def _listed(package: str) -> list[str]:
    """Return the requirements of a package and of its extras; of Celosia those of a working tree.

    What pip recorded of a working tree is out of date once an extra comes that it did not install.
    """
    project = _ROOT / "pyproject.toml"
    if package == "celosia" and project.is_file():
        table = tomllib.loads(project.read_text())["project"]
        extras = table["optional-dependencies"].items()
        more = (f"{line}; extra == {name!r}" for name, lines in extras for line in lines)
        return [*table["dependencies"], *more]
    try:
        return requires(package) or []
    except PackageNotFoundError:
        raise ValueError(f"{package}: wanted an installed package, found modules alone") from None


def requirements(extra: str, package: str = "celosia") -> list[str]:
    """Return the packages of an extra with their versions, those of extras that it names included.

    Parameters
    ----------
    extra : str
        One of the extras of the package; empty for what it always needs.
    package : str
        The package: Celosia, or ``EXAMPLES``.

    Raises
    ------
    ValueError
        If the installed package knows no such extra, or it is not installed.
    """
    listed = _listed(package)
    lines: list[str] = []
    for requirement, _, condition in (line.partition(";") for line in listed):
        # ``python_version >= "3.12" and extra == "tflite"``
        _, is_extra, tested = condition.partition("extra")
        if extra != (tested.strip(" =\"')") if is_extra else ""):
            continue
        own, _, names = requirement.partition("[")
        names = names.partition("]")[0].split(",") if own == "celosia" and names else []
        lines += [one for name in names for one in requirements(name)] or [requirement.strip()]
    if not lines:
        raise ValueError(f"extra: wanted one of the package {package}, got {extra!r}")
    return list(dict.fromkeys(lines))
