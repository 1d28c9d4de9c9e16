"""Networks of any files at some cores and memories: outputs beside LiteRT's, cycles."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from celosia.sw.compiler.compile import compile_steps
from celosia.sw.files import read_file
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.networks.comparison import Setting, compare, reference
from celosia.sw.operators.work import host_work
from celosia.sw.runtime.arrays import random_samples
from celosia.sw.runtime.opening import graph_of, open_session
from celosia.sw.runtime.session import InputError
from celosia.sw.shipped import shipped

#: Endings of files that LiteRT runs.
_ENDING = ".tflite"


@dataclass(frozen=True, kw_only=True)
class Network:
    """Figures of one file, batch 1.

    - ``operators``: their number in the file; 0 if it cannot be read.
    - ``host``: kinds of those that run on the host.
    - ``macs``, ``host_macs``: multiplications on the core, and on the host.
    - ``compared``, ``different``: output bytes, and those that are not LiteRT's.
    - ``refusal``: message of Celosia if it does not take the file.
    - ``failure``: message of LiteRT if it does not run the file.
    - ``cycles``: estimate at each setting.
    - ``vela``: cycles that Vela estimates.
    """

    file: str
    operators: int = 0
    host: tuple[str, ...] = ()
    macs: int = 0
    host_macs: int = 0
    compared: int = 0
    different: int = 0
    refusal: str = ""
    failure: str = ""
    cycles: tuple[int, ...] = ()
    vela: int | None = None

    @property
    def state(self) -> str:
        """``equal``, ``different``, ``refused``, or ``not compared`` where LiteRT does not run."""
        if self.refusal:
            return "refused"
        if self.failure:
            return "not compared"
        return "different" if self.different else "equal"


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files among some paths and in the folders among them, by name.

    A path may be the name of a shipped model. Raises InputError if a path is no such file, or a
    folder has none.
    """
    files: list[Path] = []
    for path in paths:
        path = shipped()[path.name].path if not path.exists() and str(path) in shipped() else path
        is_file = path.is_file() and path.suffix == _ENDING
        inside = [path] if is_file else sorted(path.glob(f"*{_ENDING}"))
        if not inside:
            raise InputError(
                f"{path}: wanted a {_ENDING} file, a folder with some, or a shipped model"
            )
        files += inside
    return sorted(dict.fromkeys(files), key=lambda file: file.name.lower())


def network(
    path: Path,
    settings: Sequence[Setting],
    *,
    inputs: int,
    seed: int,
    vela: Callable[[Path], int | None] | None = None,
) -> Network:
    """Return the figures of a file.

    - ``settings``: cores and memories; outputs are those of the first core.
    - ``inputs``, ``seed``: random inputs, one after the other, and their seed.
    - ``vela``: returns the cycles of Vela.

    Raises InputError if the file cannot be read, DeviceError if the core stops with an error.
    """
    content = read_file(path)
    other = vela(path) if vela else None
    try:
        graph = graph_of(content)
        program, macs, cycles = _estimated(graph, settings)
    except ValueError as error:
        return Network(file=path.name, refusal=_short(error), vela=other)
    rng = np.random.default_rng(seed)
    arrays = [random_samples(rng, port, inputs) for port in program.inputs]
    compared = wrong = 0
    failure = ""
    try:
        expected = reference(content, arrays)
    except (RuntimeError, ValueError) as error:
        failure = _short(error)
    else:
        with open_session(program, device="machine") as session:
            pairs = np.array([*compare(session, arrays, expected)])
        compared, wrong = map(int, pairs.sum(axis=0))
    return Network(
        file=path.name,
        operators=len(graph.operations),
        host=tuple(dict.fromkeys(operator.kind for operator in program.host)),
        macs=macs,
        host_macs=host_work(program).macs,
        compared=compared,
        different=wrong,
        failure=failure,
        cycles=cycles,
        vela=other,
    )


def _estimated(graph: Graph, settings: Sequence[Setting]) -> tuple[Program, int, tuple[int, ...]]:
    """Return the program and the multiplications of the first core, and the cycles of all."""
    from celosia.sw.profile.estimates import estimates

    compiled = {config: compile_steps(graph, config, 1) for config in {e.config for e in settings}}
    totals = [
        estimates(compiled[e.config], latency=e.latency, bandwidth=e.bandwidth).rows[-1]
        for e in settings
    ]
    program = compiled[settings[0].config].program
    return program, totals[0].macs, tuple(row.cycles for row in totals)


def _short(error: Exception) -> str:
    """Return the first clause of a message, without the file's name and in one line."""
    text = " ".join(str(error).split()).removeprefix("model: ")
    return re.split(r"; |\. | \(refused too", text)[0]
