"""Devices and LiteRT's reference kernels on random models: every byte has to be the same."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import litert
import numpy as np
from networks import Graph, Operation
from random_networks.cases import Case, case

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session


def reference(case: Case) -> dict[int, np.ndarray]:
    """Return the result of every operator by LiteRT's kernels (``resolver``), by number of tensor.

    Arrays are of shape (invocations, ...).
    """
    numbers = [number for operation in case.graph.operations for number in operation.outputs]
    options = {"experimental_preserve_all_tensors": True}
    interpreter = litert.interpreter(case.content, case.graph, **options)
    return dict(
        zip(numbers, litert.invoked(interpreter, *case.inputs, tensors=numbers), strict=True)
    )


def executed(case: Case, config: Config, device: str) -> dict[int, np.ndarray]:
    """Return the outputs of the model by a device, as ``reference`` does.

    Raises ``CompileError`` if the compiler refuses the model.
    """
    program = compile_graph(load(case.content), config, case.batch)
    items = [
        values.reshape(-1, *port.shape)
        for values, port in zip(case.inputs, program.inputs, strict=True)
    ]
    with open_session(program, device=device) as session:
        results = session.run(items)
    return {
        number: result.reshape(len(case.inputs[0]), *case.graph.tensors[number].shape)
        for number, result in zip(case.graph.outputs, results, strict=True)
    }


def differences(case: Case, config: Config, device: str) -> str:
    """Return which output differs from LiteRT's and how much; empty if none does.

    Raises ``CompileError`` if the compiler refuses the model.
    """
    known = reference(case)
    for number, got in executed(case, config, device).items():
        wrong = np.count_nonzero(got != known[number])
        if wrong:
            name = case.graph.tensors[number].name
            return f"{name}: {wrong} of {got.size} bytes differ"
    return ""


def assert_equal(graph: Graph, *inputs: np.ndarray, sizes: str = "edge", batch: int = 1) -> None:
    """Compare a graph on the machine model of a core with LiteRT."""
    assert differences(Case(0, "", graph, inputs, batch), preset(sizes), "machine") == ""


def _up_to(graph: Graph, operation: Operation) -> Graph:
    """Return an operator and what it takes to compute its inputs."""
    wanted, rest = set(operation.outputs), list[Operation]()
    for earlier in reversed(graph.operations[: graph.operations.index(operation) + 1]):
        if wanted.intersection(earlier.outputs):
            wanted.update(earlier.inputs)
            rest.insert(0, earlier)
    return replace(graph, operations=tuple(rest), outputs=operation.outputs)


def culprit(case: Case, config: Config, device: str) -> str:
    """Return the first operator of a case that differs when it is the last one."""
    for operation in case.graph.operations:
        shorter = _up_to(case.graph, operation)
        try:
            wrong = differences(replace(case, graph=shorter), config, device)
        except CompileError:
            continue
        if wrong:
            return f"{case.graph.label(operation)} as the last one, {wrong}"
    return "no operator as the last one"


@dataclass
class Verdict:
    """Result of some cases."""

    run: int = 0
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Return one line."""
        reasons = ", ".join(f"{reason} ({count})" for reason, count in self.refused.most_common())
        refused = f"; {self.refused.total()} refused: {reasons}" if self.refused else ""
        return f"{self.run:,} cases, {len(self.wrong)} wrong{refused}"


def verdict_of(seeds: Iterable[int], configs: Sequence[Config], device: str = "machine") -> Verdict:
    """Run cases, each on one of the configurations, and compare every byte.

    ``seeds``: cases; a seed always meets the same configuration of a list; ``configs``: cores;
    ``device``: ``machine`` or ``rtl``.
    """
    verdict = Verdict()
    for seed in seeds:
        config, one = configs[seed % len(configs)], case(seed)
        where = f"seed {seed} on {config.name}, {one.name}"
        verdict.run += 1
        try:
            wrong = differences(one, config, device)
        except Exception as error:
            # A cause is what the check of the finished program has found.
            if isinstance(error, CompileError) and error.__cause__ is None:
                verdict.refused[error.reason] += 1
            else:
                verdict.wrong.append(f"{where}: {type(error).__name__}: {error}")
        else:
            if wrong:
                verdict.wrong.append(f"{where}: {wrong}; {culprit(one, config, device)}")
    return verdict
