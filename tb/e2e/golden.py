"""Frozen figures of whole networks: ``python tb/e2e/golden.py`` compares them.

``--write`` puts what is measured into ``golden.json``, after LiteRT's reference kernels have given
the same bytes. Names choose networks; ``--rtl`` counts the cycles of the RTL, too.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

# A script finds the modules of its folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import litert
from whole_networks.golden import NETWORKS

from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program
from celosia.sw.runtime.interpreter import open_session

FILE = Path(__file__).with_suffix(".json")

Figures = dict[str, str | int]


def compiled(name: str) -> Program:
    """Return the program of a network."""
    network = NETWORKS[name]
    return compile_graph(load(network.content()), preset(network.preset), network.batch)


def inputs(ports: Iterable[Port], count: int) -> list[np.ndarray]:
    """Return so many samples for each input, the same on every machine and day.

    The first is of full contrast, the others have less, so that no softmax hides their numbers.
    """
    random = np.random.RandomState(22)
    arrays = []
    for port in ports:
        samples = []
        for reach in np.resize([128, 4, 20, 60], count):
            middle = random.randint(reach - 128, 129 - reach)
            samples.append(random.randint(middle - reach, middle + reach, port.shape))
        scale = port.scale if port.dtype == "float32" else 1
        offset = 128 if port.dtype == "uint8" else 0
        arrays.append((np.array(samples) * scale + offset).astype(port.dtype))
    return arrays


def _digest(parts: Iterable[bytes]) -> str:
    joined = hashlib.sha256()
    for part in parts:
        joined.update(len(part).to_bytes(8, "little") + part)
    return joined.hexdigest()[:32]


def digests(program: Program) -> Figures:
    """Return digests of a program's instructions and constants."""
    sections = (section for part in program.parts for section in (*part.setups, *part.mains))
    return {
        "code": _digest(section.code for section in sections),
        "constants": _digest(segment.data for segment in program.segments),
    }


def estimated(program: Program) -> int:
    """Return the cycles that one run of all parts takes, set-up left out."""
    mains = (section for part in program.parts for section in part.mains)
    return sum(estimate(section.code, program.config).total for section in mains)


def ran(program: Program, samples: int, device: str) -> tuple[list[np.ndarray], int | None]:
    """Return the outputs of so many samples, and the cycles of one run where there is a clock."""
    with open_session(program, device=device) as session:
        results = session.run(inputs(program.inputs, samples))
        cycles = session.statistics.cycles
    return results, None if cycles is None else cycles * program.batch // samples


def outputs(arrays: Iterable[np.ndarray]) -> str:
    """Return the digest of outputs."""
    return _digest(array.tobytes() for array in arrays)


def reference(name: str, program: Program) -> list[np.ndarray]:
    """Return what LiteRT's reference kernels give for the same samples, one at a time."""
    arrays = inputs(program.inputs, NETWORKS[name].samples)
    interpreter = litert.interpreter(NETWORKS[name].content())
    return [found[:, 0] for found in litert.invoked(interpreter, *arrays)]


def figures(name: str, rtl: bool) -> Figures:
    """Return all figures of a network; RTL and machine model must give LiteRT's bytes."""
    program, samples = compiled(name), NETWORKS[name].samples
    known = outputs(reference(name, program))
    found = {**digests(program), "cycles": estimated(program), "outputs": known}
    if outputs(ran(program, samples, "machine")[0]) != known:
        raise SystemExit(f"{name}: machine model and LiteRT differ")
    if rtl and NETWORKS[name].rtl:
        results, cycles = ran(program, samples, "rtl")
        if outputs(results) != known:
            raise SystemExit(f"{name}: RTL and LiteRT differ")
        assert cycles is not None
        found["rtl"] = cycles
    return found


def stored() -> dict[str, Figures]:
    """Return the frozen figures by the name of the network."""
    return json.loads(FILE.read_text())


def main() -> None:
    """Compare figures, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all unless given")
    parser.add_argument("--write", action="store_true", help="rewrite golden.json")
    parser.add_argument("--rtl", action="store_true", help="count cycles of the RTL, too")
    options = parser.parse_args()
    differences = 0
    for name in options.names or NETWORKS:
        if name not in NETWORKS:
            sys.exit(f"golden: wanted one of {', '.join(NETWORKS)}, got {name!r}")
        frozen = stored() if FILE.exists() else {}
        old = frozen.get(name, {})
        new = figures(name, options.rtl)
        for key in new:
            mark = "" if old.get(key) == new[key] else f"   was {old.get(key)}"
            differences += bool(mark)
            print(f"{name:24} {key:10} {new[key]}{mark}", flush=True)
        if options.write:
            frozen[name] = {**old, **new}
            FILE.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n")
    if differences and not options.write:
        sys.exit(f"golden: {differences} figures differ")


if __name__ == "__main__":
    main()
