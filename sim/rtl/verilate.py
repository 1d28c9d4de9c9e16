"""Compiler of Verilog to a shared library, through Verilator and the C++ compiler."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from celosia.hw.environment.caches import is_own, own_folder, settle_caches
from celosia.sim.rtl.simulators import SimulatorNotFound, find_verilator, has_zlib, user_cache

FLAGS = (
    "--cc",
    "-O3",
    "--x-assign",
    "0",
    "--x-initial",
    "0",
    "--noassert",
    # Compilers take more than twice the time for a function of twice the length.
    "--output-split-cfuncs",
    "1000",
)
#: What lets a model count how often branches were taken.
LINES = ("--coverage-line",)
#: And how often bits have changed; the widest signal of a core is a word of its program, or a row
#: of sums.
TOGGLES = (
    *LINES,
    "--coverage-toggle",
    "--coverage-underscore",
    "--coverage-max-width",
    "4096",
)
#: What lets a model write waves.
WAVES = ("--trace-fst",)
# Amaranth sizes operators for its own rules, and names signals without regard to C++; LiteX writes
# `<=` in combinational logic.
_WAIVED = (
    "COMBDLY",
    "WIDTH",
    "UNOPTFLAT",
    "CASEINCOMPLETE",
    "CASEOVERLAP",
    "SYMRSVDWORD",
    "CMPCONST",
    "UNSIGNED",
)
#: For Verilator, before generated Verilog.
WAIVERS = "`verilator_config\n" + "".join(f"lint_off -rule {rule}\n" for rule in _WAIVED)
# Marks of branches (celosia.hw.verilog.origins) are wires that nobody sets back.
_MARKED = "lint_off -rule LATCH\n"
#: Most bytes of files of C++ that one call of the compiler takes: it wants a few seconds.
_MOST = 2 << 20
#: What a model that counts is compiled with instead of Verilator's own.
POINTS = tuple(Path(__file__).with_name(name) for name in ("points.h", "points.cpp"))


class RtlError(RuntimeError):
    """Model that could not be built, or core that does not respond."""


def cache_directory() -> Path:
    """Return the folder of models and their Verilog: ``$CELOSIA_CACHE``, else the user's cache."""
    if os.environ.get("CELOSIA_CACHE"):
        return Path(os.environ["CELOSIA_CACHE"]).absolute()
    settle_caches()
    return user_cache()


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold a lock with which one process at a time makes ``target``, a file or a folder."""
    own_folder(target.parent)
    with target.with_name(f"{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(target: Path, make: Callable[[], object]) -> None:
    """Make the file ``target`` if it is missing; one process makes it, others wait.

    Its digest is kept beside it: a truncated or changed file is made again, and so is one that
    another user owns or may write. If it is complete, nothing is written and no process waits.
    Raises OSError if another user owns its folder.
    """
    if _is_whole(target):
        return
    with locked(target):
        if not _is_whole(target):
            _digest_of(target).unlink(missing_ok=True)
            _make(target, make)


def _make(target: Path, make: Callable[[], object]) -> None:
    try:
        make()
        # The mask of the shell may open new files to a group.
        target.chmod(0o644)
        _digest_of(target).write_text(_digest(target))
    except OSError as error:
        reason = error.strerror or error
        text = f"{target.parent}: cannot be written ({reason}); CELOSIA_CACHE names another folder"
        raise OSError(text) from None


def _digest_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def _digest(target: Path) -> str:
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(target: Path) -> bool:
    """Return True if a file exists, is unchanged, and was made by this user."""
    if not (is_own(target.parent) and is_own(target)):
        return False
    try:
        return _digest_of(target).read_text() == _digest(target)
    except (OSError, UnicodeDecodeError):
        return False


def require_tools(*, waves: bool = False) -> Path:
    """Return the path of Verilator.

    Raises SimulatorNotFound if it, the C++ compiler or, for ``waves``, zlib is missing.
    """
    verilator = find_verilator()
    _require_compiler()
    if waves and not has_zlib():
        raise SimulatorNotFound(
            "zlib.h: waves want the headers of zlib, found none (apt-get install zlib1g-dev)"
        )
    return Path(verilator)


def _require_compiler() -> None:
    if not shutil.which("g++"):
        raise SimulatorNotFound(
            "g++: wanted a C++ compiler on PATH, found none (apt-get install g++)"
        )


def library_of(source: Path, *options: str, key: str = "") -> Path:
    """Return the library of one file of C++, compiled if the cache has none.

    - ``options``: of the compiler, after the file.
    - ``key``: what else the library depends on.

    Raises SimulatorNotFound if there is no C++ compiler; RtlError if it fails.
    """
    _require_compiler()
    text = f"{key} {options} {source.read_text(encoding='utf-8')}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    target = cache_directory() / "libraries" / f"{source.stem}-{digest[:32]}.so"
    command = ["g++", "-shared", "-fPIC", str(source), *options, "-o", str(target)]
    once(target, lambda: _run(command, target.parent))
    return target


def _run(command: list[str], directory: Path) -> None:
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if result.returncode:
        log = own_folder(cache_directory()) / "build.log"
        log.write_text(result.stdout + result.stderr)
        raise RtlError(
            f"{Path(command[0]).name} failed ({result.returncode}); its words are in {log}"
        )


def compile_library(
    text: str,
    target: Path,
    harness: Sequence[Path],
    *,
    level: str,
    definitions: Sequence[str] = (),
    counting: Sequence[str] = (),
    waves: bool = False,
    top: str = "celosia",
) -> None:
    """Compile Verilog and C++ that drives it.

    - ``text``: Verilog.
    - ``target``: library to write.
    - ``harness``: headers, and one file of C++.
    - ``level``: optimisation of the C++ compiler; models of ``-O2`` compile slower and run no
      faster.
    - ``definitions``: ``NAME=VALUE`` for the C++ compiler.
    - ``counting``: ``LINES`` or ``TOGGLES``: coverage that Verilator counts, see ``points.h``.
    - ``waves``: whether the model can write waves.
    - ``top``: top module of the Verilog.

    Raises SimulatorNotFound if there is no Verilator or no C++ compiler; RtlError if one of them
    fails.
    """
    verilator = str(require_tools(waves=waves))
    more = (*counting, *(WAVES if waves else ()))
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        directory = Path(name)
        (directory / "celosia.v").write_text(text)
        files = (*harness, *POINTS) if counting else harness
        for path in files:
            (directory / path.name).write_bytes(path.read_bytes())
        if counting:
            (directory / "verilated_cov.h").write_text(f'#include "{POINTS[0].name}"\n')
        (directory / "waivers.vlt").write_text(WAIVERS + _MARKED * bool(counting))
        _run([verilator, *FLAGS, "--top-module", top, *more, "waivers.vlt", "celosia.v"], directory)
        root = subprocess.run(
            [verilator, "--getenv", "VERILATOR_ROOT"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        defined = [*definitions, *["CELOSIA_COVERAGE"] * bool(counting)]
        defined += ["VM_TRACE=1", "VM_TRACE_FST=1"] * waves
        flags = ["-fPIC", "-std=gnu++17", "-w", *(f"-D{one}" for one in defined)]
        includes = ["-I.", "-Iobj_dir", f"-I{root}/include", f"-I{root}/include/vltstd"]
        driving = [directory / path.name for path in files if path.suffix == ".cpp"]
        sources = _joined(directory / "obj_dir", driving)
        sources += [
            path
            for n in ("verilated", "verilated_threads", *["verilated_fst_c"] * waves)
            if (path := Path(root) / "include" / f"{n}.cpp").exists()
        ]
        _compile(sources, level, [*flags, *includes], directory, ["-lz"] * waves)
        os.replace(directory / "model.so", target)


def _joined(folder: Path, driving: list[Path]) -> list[Path]:
    """Return files that include the C++ files of Verilator and those that drive the model.

    Each call of the compiler takes most of a second for the headers alone. Set-up code, which
    Verilator keeps apart, runs once.
    """
    slow = sorted(folder.glob("*Slow.cpp"))
    fast = [path for path in sorted(folder.glob("*.cpp")) if path not in slow] + driving
    sources = []
    for name, paths in (("fast", fast), ("slow", slow)):
        for n, group in enumerate(_groups(paths)):
            joined = folder / f"{name}{n}.cpp"
            joined.write_text("".join(f'#include "{path.name}"\n' for path in group))
            sources.append(joined)
    return sources


def _groups(paths: list[Path]) -> Iterator[list[Path]]:
    """Yield files in order, together as many as are not too large."""
    group: list[Path] = []
    size = 0
    for path in paths:
        size += path.stat().st_size
        if group and size > _MOST:
            yield group
            group, size = [], path.stat().st_size
        group.append(path)
    if group:
        yield group


def _compile(
    sources: list[Path], level: str, flags: list[str], directory: Path, libraries: list[str]
) -> None:
    """Compile files of C++ to ``model.so``."""
    compiler = ["ccache", "g++"] if shutil.which("ccache") else ["g++"]
    objects = [f"{source.stem}.o" for source in sources]
    commands = []
    for source, thing in zip(sources, objects, strict=True):
        chosen = "-O0" if source.stem.startswith("slow") else level
        # ccache finds the same file again where its path is the same.
        path = source.relative_to(directory) if source.is_relative_to(directory) else source
        commands.append([*compiler, chosen, *flags, "-c", str(path), "-o", thing])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda command: _run(command, directory), commands):
            pass
    link = ["g++", "-shared", "-pthread", "-o", "model.so", *objects, *libraries]
    _run(link, directory)
