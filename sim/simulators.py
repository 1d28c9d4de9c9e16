"""Finds the HDL simulators, and installs missing ones.

Uses the standard library alone, so that it also runs before the package is installed:
``python3 sim/simulators.py`` lists the simulators found; with ``--install`` it first installs the
missing ones, and the viewers of pages and waves that tests need.

Debian 12 has Verilator 5.006, which cocotb 2 refuses. A newer one is then unpacked from a later
Debian suite, with the libraries it was linked against, into a folder of the user's cache. The
system's packages and apt's state do not change.
"""

import argparse
import contextlib
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

COCOTB_VERILATOR = (5, 36)
"""Oldest Verilator that cocotb 2 works with."""

_SUITE = "forky"
_PACKAGES = ("verilator", "libc6", "libstdc++6", "libgcc-s1")
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

_APT_CONF = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Dir::Etc::sourcelist "{work}/suite.sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "{work}/lists";
Dir::Cache "{work}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
"""

_WRAPPER = """\
#!/bin/sh
self=$(readlink -f "$0")
top=${{self%/usr/bin/*}}
export VERILATOR_ROOT="$top/usr/share/verilator"
exec "$top/{loader}" --library-path "$top/{libraries}" "$self.elf" "$@"
"""


class SimulatorNotFound(RuntimeError):
    """Missing simulator of the wanted kind and version; the message is one line for the user."""


def find_verilator(minimum: tuple[int, int] = (5, 0)) -> Path:
    """Return the Verilator to use: the system's if it is new enough, else the private one.

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
    found = f"only {', '.join(seen)}" if seen else "none"
    raise SimulatorNotFound(
        f"Verilator {_text(minimum)} or newer wanted, {found} found: "
        "install the package verilator, or run python3 sim/simulators.py --install"
    )


def find_icarus() -> Path:
    """Return the compiler of Icarus Verilog, ``iverilog``.

    Raises SimulatorNotFound if it or its simulator ``vvp`` is not on the path.
    """
    path = shutil.which("iverilog")
    if path is None or shutil.which("vvp") is None:
        raise SimulatorNotFound(
            "Icarus Verilog not found: "
            "install the package iverilog, or run python3 sim/simulators.py --install"
        )
    return Path(path)


def has_zlib() -> bool:
    """Return True if the C++ compiler finds the headers of zlib."""
    command = ["g++", "-E", "-x", "c++", "-include", "zlib.h", os.devnull]
    found = shutil.which("g++") is not None
    return found and not subprocess.run(command, capture_output=True).returncode


def install() -> None:
    """Install missing packages through apt, then a Verilator new enough for cocotb.

    Raises SimulatorNotFound if a needed package is still missing; the message names the packages to
    install.
    """
    _install_packages()
    try:
        find_verilator(COCOTB_VERILATOR)
        return
    except SimulatorNotFound:
        pass
    try:
        path = _install_private()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log = user_cache() / "verilator.log"
        with contextlib.suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"{error}\n")
        used = _text(_version(find_verilator()))
        print(f"Verilator {used} is used; a newer one could not be fetched ({log}). Nothing to do.")
    else:
        print(f"installed {path}")
        find_verilator()


def _verilators() -> Iterator[Path]:
    """Yield the candidates: the one on the path, then private ones, newest first."""
    system = shutil.which("verilator")
    if system is not None:
        yield Path(system)
    private = user_cache().glob("verilator-[0-9]*/usr/bin/verilator")
    yield from sorted(private, key=lambda path: _numbers(path.parts[-4]), reverse=True)


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


def _install_packages() -> None:
    """Install the missing packages of the simulators."""
    missing = _missing()
    if not missing:
        return
    _apt_install(missing)
    needed = [package for package, is_needed in _missing().items() if is_needed]
    if needed:
        raise SimulatorNotFound(f"please install these packages: {' '.join(needed)}")


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
    """Install the viewers of pages and waves; tests that need a missing one are skipped."""
    missing = [package for program, package in VIEWERS.items() if shutil.which(program) is None]
    if missing:
        _apt_install(missing)
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


# Private Verilator


def _install_private() -> Path:
    """Unpack a newer Verilator into the cache, completely or not at all; return its program.

    Raises OSError, ValueError or subprocess.SubprocessError if that fails.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise ValueError("not a Debian system")
    stanzas = _suite_stanzas()
    if not stanzas:
        raise ValueError("no Debian mirror among apt's sources")
    user_cache().mkdir(parents=True, exist_ok=True)
    failure: Exception = ValueError("no mirror")
    for stanza in stanzas:
        with tempfile.TemporaryDirectory(dir=user_cache(), prefix="unpack-") as folder:
            try:
                return _unpack(Path(folder), stanza)
            except subprocess.SubprocessError as error:
                text = getattr(error, "stderr", None)
                failure = ValueError(text) if text else error
    raise failure


def _unpack(work: Path, stanza: str) -> Path:
    """Download and unpack the packages below `work`, then move the result into the cache."""
    for folder in ("lists/partial", "cache/archives/partial", "packages", "prefix"):
        (work / folder).mkdir(parents=True)
    (work / "suite.sources").write_text(stanza)
    (work / "apt.conf").write_text(_APT_CONF.format(work=work))
    apt = ["apt-get", "-qq", "-c", str(work / "apt.conf")]
    prefix, packages = work / "prefix", work / "packages"
    _quietly([*apt, "update"], work)
    _quietly([*apt, "download", *_PACKAGES], packages)
    for package in packages.glob("*.deb"):
        _quietly(["dpkg", "-x", str(package), str(prefix)], work)
    _wrap(prefix)
    program = prefix / "usr/bin/verilator"
    version = _version(program)
    if version < COCOTB_VERILATOR:
        raise ValueError(f"the Verilator of {_SUITE} does not run here")
    final = user_cache() / f"verilator-{_text(version)}"
    shutil.rmtree(final, ignore_errors=True)
    prefix.rename(final)
    return final / "usr/bin/verilator"


def _wrap(prefix: Path) -> None:
    """Make the unpacked programs start through the loader and libraries unpacked with them."""
    loaders = [path for path in prefix.glob("usr/lib/*/ld-linux*.so.*") if not path.is_symlink()]
    if not loaders:
        raise ValueError("no loader in the package libc6")
    loader = loaders[0].relative_to(prefix)
    for name in ("verilator_bin", "verilator_coverage_bin_dbg"):
        program = prefix / "usr/bin" / name
        program.rename(f"{program}.elf")
        program.write_text(_WRAPPER.format(loader=loader, libraries=loader.parent))
        program.chmod(0o755)
    (prefix / "usr/bin/verilator_bin_dbg").unlink(missing_ok=True)
    shutil.rmtree(prefix / "usr/share/doc", ignore_errors=True)


def _quietly(command: list[str], folder: Path) -> None:
    """Run a command in a folder; only an error shows its output."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)


def _suite_stanzas(apt: Path = Path("/etc/apt")) -> list[str]:
    """Return sources of the newer suite, one for each Debian mirror the machine itself uses."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    sources = [source for path in files if path.is_file() for source in _one_line(path.read_text())]
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        sources += _deb822(path.read_text())
    codename = re.search(r"^VERSION_CODENAME=(\w+)", _os_release(), re.M)
    names = {codename[1] if codename else "", "stable", "oldstable", "testing"}
    stanzas: dict[str, None] = {}
    for source in sources:
        if "main" not in source["Components"].split() or not names & set(source["Suites"].split()):
            continue
        for uri in source["URIs"].split():
            fields = {"Types": "deb", "URIs": uri, "Suites": _SUITE, "Components": "main"}
            fields |= {key: source[key] for key in ("Signed-By", "Trusted") if key in source}
            stanzas["".join(f"{key}: {value}\n" for key, value in fields.items())] = None
    return sorted(stanzas, key=lambda text: not re.search(r"/debian/?$", text, re.M))


def _os_release() -> str:
    """Return the text that names this system."""
    path = Path("/etc/os-release")
    return path.read_text() if path.is_file() else ""


def _one_line(text: str) -> Iterator[dict[str, str]]:
    """Yield the binary sources of a file in the older format, under the newer one's names."""
    for match in re.finditer(r"^\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#\n]*)", text, re.M):
        source = {"URIs": match[2], "Suites": match[3], "Components": match[4]}
        options = dict(word.split("=", 1) for word in (match[1] or "").split() if "=" in word)
        for name, field in (("signed-by", "Signed-By"), ("trusted", "Trusted")):
            if name in options:
                source[field] = options[name]
        yield source


def _deb822(text: str) -> Iterator[dict[str, str]]:
    """Yield the enabled binary sources of a file in the format of stanzas."""
    text = re.sub(r"^#.*\n?", "", text, flags=re.M)
    for stanza in re.split(r"\n\s*\n", text):
        # A field goes on over the lines that begin with a blank: keys can be given in full.
        fields = re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza, re.M)
        source = {key.title().replace("Uris", "URIs"): value for key, value in fields}
        enabled = source.get("Enabled", "yes").strip().lower() not in ("no", "false", "0")
        complete = {"URIs", "Suites", "Components"} <= set(source)
        if enabled and complete and "deb" in source.get("Types", "").split():
            yield source


def main() -> None:
    """List the simulators, after installing them with ``--install``."""
    parser = argparse.ArgumentParser(description="Find the HDL simulators.")
    parser.add_argument("--install", action="store_true", help="get what is missing first")
    parser.add_argument(
        "--install-viewers", action="store_true", help="get Chromium and GTKWave, no more"
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
