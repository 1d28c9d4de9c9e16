"""Builds the Verilog of a component for a simulator, once, and runs a bench on it."""

import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import prerequisites
import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import Runner, get_runner

from celosia.hw.arch.config import Config
from celosia.hw.verilog import build
from celosia.sim.rtl import parts
from celosia.sim.rtl.simulators import (
    COCOTB_VERILATOR,
    SimulatorNotFound,
    find_icarus,
    find_verilator,
)
from celosia.sim.rtl.verilate import locked

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "cosim"
SIMULATORS = ("icarus", "verilator")
TIMESCALE = ("1ns", "1ps")

# Amaranth leaves the widths of operands to Verilog's own rules, writes `casez` without all cases,
# and puts parts of one bundle on both sides of an assignment. Loops over lanes compare with the
# least and the greatest number too. C++ has a function `abort`.
WAIVERS = """\
`verilator_config
lint_off -rule WIDTHEXPAND
lint_off -rule WIDTHTRUNC
lint_off -rule CASEINCOMPLETE
lint_off -rule CASEOVERLAP
lint_off -rule UNOPTFLAT
lint_off -rule SYMRSVDWORD
lint_off -rule CMPCONST
lint_off -rule UNSIGNED
"""

#: Options of Icarus for each language; the later -g wins over the runner's.
ICARUS_ARGUMENTS = {"2012": ["-g2012"], "2005": ["-g2005"]}
# The runner makes every signal public, which takes minutes to compile; ports are enough.
VERILATOR_ARGUMENTS = [
    *("--no-public-flat-rw", "--public-depth", "1"),
    *("--x-assign", "unique", "--x-initial", "unique"),
    # One C++ file: of several, each would read headers that take longer than its own code.
    *("--output-split", "0"),
    # A bench takes most of its time in Python; to optimise a core takes six times what it saves.
    *("-CFLAGS", "-O0"),
]


def simulators() -> tuple[str, ...]:
    """Return the simulator that ``SIM`` names, or all of them where it is not set.

    Raises ``ValueError`` if it names another.
    """
    name = os.environ.get("SIM")
    if name is None:
        return SIMULATORS
    if name not in SIMULATORS:
        raise ValueError(f"SIM: wanted {' or '.join(SIMULATORS)}, got {name!r}")
    return (name,)


@contextmanager
def _surroundings(sim: str) -> Iterator[None]:
    """Put the simulator's folder on ``PATH``, and the view on Python's, for the runner."""
    program = find_icarus() if sim == "icarus" else find_verilator(COCOTB_VERILATOR)
    before, modules = os.environ.copy(), sys.path.copy()
    os.environ["PATH"] = os.pathsep.join((str(program.parent), before["PATH"]))
    if shutil.which("ccache"):
        os.environ.setdefault("OBJCACHE", "ccache")
    sys.path.insert(0, str(ROOT / "build" / "view"))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.path[:] = modules


def _digest(sim: str, bench: str) -> str:
    """Return a digest of what a model depends on besides its name and sizes."""
    source = importlib.import_module(bench).__file__
    assert source is not None
    names = (__file__, source, *parts.models("*"))
    files = b"".join(Path(name).read_bytes() for name in names)
    return hashlib.sha256(
        build.sources_digest().encode() + files + _tools(sim).encode()
    ).hexdigest()


def _tools(sim: str) -> str:
    program = find_icarus() if sim == "icarus" else find_verilator(COCOTB_VERILATOR)
    return f"{program} {program.stat().st_mtime} cocotb {version('cocotb')}"


def _parts(config: Config) -> list[Path]:
    """Return the models of a part's own multipliers that the cells of a configuration use."""
    return parts.models(config.cells.partition("_")[0])


def _compile(
    runner: Runner,
    sim: str,
    text: str,
    models: list[Path],
    folder: Path,
    *,
    language: str,
    waves: bool,
) -> None:
    """Build a model from its Verilog, in a new folder."""
    folder.mkdir(parents=True)
    top = folder / "component.v"
    top.write_text(text)
    sources = [*models, top]
    arguments = ICARUS_ARGUMENTS[language]
    if sim == "verilator":
        waivers = folder / "waivers.vlt"
        waivers.write_text(WAIVERS)
        sources.insert(0, waivers)
        arguments = VERILATOR_ARGUMENTS
    elif waves:
        recorder = folder / "recorder.v"
        recorder.write_text(
            "module recorder;\n"
            f'initial begin $dumpfile("waves.fst"); $dumpvars(0, {build.TOP}); end\n'
            "endmodule\n"
        )
        sources.append(recorder)
        arguments = [*arguments, "-s", "recorder"]
    log = folder / "build.log"
    try:
        runner.build(
            sources=sources,
            hdl_toplevel=build.TOP,
            build_dir=folder,
            build_args=arguments,
            timescale=TIMESCALE,
            waves=waves and sim == "verilator",
            log_file=log,
        )
    except (RuntimeError, SystemExit) as error:
        words = log.read_text()[-3000:] if log.exists() else ""
        pytest.fail(f"{sim} could not build its model: {error}\n{words}", pytrace=False)


def model(
    runner: Runner,
    sim: str,
    bench: str,
    config: Config,
    *,
    language: str = "2012",
    waves: bool = False,
) -> Path:
    """Return the folder of the built model, building it unless that was done before.

    Sources are looked at first; where they have changed, their Verilog decides.
    """
    name = hashlib.sha256(repr(sorted(asdict(config).items())).encode()).hexdigest()[:8]
    kind = sim if language == "2012" else f"{sim}-{language}"
    folder = BUILD / f"{kind}-{bench}-{name}{'-waves' if waves else ''}"
    with locked(folder):
        stamp, sources = folder / "stamp", _digest(sim, bench)
        of_sources, _, of_verilog = (stamp.read_text() if stamp.exists() else "").partition("\n")
        if of_sources == sources:
            return folder
        text = build.convert(importlib.import_module(bench).make(config))
        settings = f"{_tools(sim)}{ICARUS_ARGUMENTS}{VERILATOR_ARGUMENTS}{WAIVERS}"
        settings += "".join(path.read_text() for path in _parts(config))
        digest = hashlib.sha256((text + settings).encode()).hexdigest()
        if of_verilog != digest:
            shutil.rmtree(folder, ignore_errors=True)
            _compile(runner, sim, text, _parts(config), folder, language=language, waves=waves)
        stamp.write_text(f"{sources}\n{digest}")
    return folder


def run(
    bench: str,
    config: Config,
    *,
    sim: str,
    seed: int,
    folder: Path,
    waves: Path | None = None,
    only: str | None = None,
    language: str = "2012",
    **options: object,
) -> None:
    """Run a bench on a simulator; fail if one of its tests does.

    ``bench``: module with ``make(config)``, which returns the component, and with cocotb's tests;
    ``config``: sizes of the core; ``sim``: one of ``SIMULATORS``; ``seed``: seed of all that is
    random in the bench; ``folder``: where the bench runs and leaves its log and results; ``waves``:
    file for a waveform, without its ending; ``only``: the one of its tests to run;
    ``language``: year of the Verilog that Icarus reads; ``**options``: what else the bench wants to
    know; anything that JSON can say.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    results, log = folder / "results.xml", folder / "simulation.log"
    settings = {"sizes": asdict(config), "seed": seed, "options": options}
    try:
        with _surroundings(sim):
            runner = get_runner(sim)
            built = model(runner, sim, bench, config, language=language, waves=waves is not None)
            runner.build_dir = built
            runner.test(
                test_module=bench,
                hdl_toplevel=build.TOP,
                hdl_toplevel_lang="verilog",
                testcase=only,
                build_dir=built,
                test_dir=folder,
                results_xml=str(results),
                seed=seed,
                waves=waves is not None,
                extra_env={
                    "CELOSIA_BENCH": json.dumps(settings),
                    "COCOTB_ANSI_OUTPUT": "0",
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                },
                log_file=log,
            )
    except SimulatorNotFound as error:
        prerequisites.missing(error)
    except (RuntimeError, SystemExit):
        pass  # the results below say so, by being absent or naming failures
    tests, failures = get_results(results) if results.exists() else (0, 1)
    if not tests or failures:
        pytest.fail(f"{bench} on {sim}: {failures} of {tests} failed\n{_end(log)}", pytrace=False)
    if waves is not None:
        for made in (*folder.glob("*.fst"), *folder.glob("*.vcd")):
            shutil.copyfile(made, f"{waves}{made.suffix}")


def _end(log: Path) -> str:
    """Return what a log ends with."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-60:]) if log.exists() else ""
