"""Random operators and graphs of them: LiteRT's reference kernels, machine model and RTL agree."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from conformance import Verdict, differences, reference, verdict_of
from random_networks.cases import FAMILY, Case, case

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset

pytestmark = pytest.mark.usefixtures("litert")

SIZES = (
    *("nano", "micro", "edge", "edge,weight_rows=4", "micro,columns=12,lanes=4"),
    # Too small for what the others hold at once.
    *("micro,unified_bytes=8192", "edge,accumulator_depth=64,weight_tiles=6,parameter_channels=16"),
)
CONFIGS = [preset(sizes) for sizes in SIZES]

#: Seeds that have found bugs.
REGRESSIONS = (
    *(20, 42, 356, 492, 541, 1126, 2451, 4045),
    *(10000, 10278, 10538, 11374, 11808, 11856, 20669, 28631, 30595, 40036),
    *(50151, 50219, 59148, 60009, 60022, 60706, 80049, 88247, 88254),
)

#: Most cases in a hundred that the compiler may refuse.
REFUSED = 6


class Family(NamedTuple):
    """Numbers of cases of a family of seeds: in few seconds, on the machine model, on RTL."""

    some: int
    many: int
    rtl: int


FAMILIES = {
    "first": Family(some=35, many=1000, rtl=200),
    "depthwise and add": Family(some=28, many=2100, rtl=200),
    "branches": Family(some=14, many=700, rtl=100),
    "host": Family(some=63, many=3000, rtl=300),
    "segments": Family(some=28, many=700, rtl=50),
    "between": Family(some=21, many=700, rtl=100),
    "inputs": Family(some=28, many=1400, rtl=100),
    "arithmetic": Family(some=70, many=4200, rtl=300),
    "concatenations": Family(some=21, many=700, rtl=100),
    "matrices": Family(some=28, many=2100, rtl=200),
    "transformers": Family(some=28, many=2100, rtl=200),
}


#: Options of the cores of a family.
OPTIONS = {
    "arithmetic": ("elementwise_products",),
    "matrices": ("activation_weights",),
    "segments": ("elementwise_products",),
    "transformers": ("activation_weights", "elementwise_products", "softmax"),
}


def seeds(family: str) -> range:
    """Return all seeds of a family."""
    first = list(FAMILIES).index(family) * FAMILY
    return range(first, first + FAMILY)


def configs(family: str, of: Sequence[Config] = CONFIGS) -> Sequence[Config]:
    """Return the configurations of the cases of a family: those given, or the same with options."""
    options = dict.fromkeys(OPTIONS.get(family, ()), True)
    return [replace(config, **options) for config in of]


def assert_good(verdict: Verdict) -> None:
    assert not verdict.wrong, "\n".join([str(verdict), *verdict.wrong])
    assert verdict.refused.total() * 100 <= max(REFUSED * verdict.run, 300), str(verdict)


@pytest.mark.parametrize("family", FAMILIES)
def test_some_cases(family: str) -> None:
    """Each case on one of the configurations, turn by turn."""
    assert_good(verdict_of(seeds(family)[: FAMILIES[family].some], configs(family)))


@pytest.mark.parametrize("config", CONFIGS, ids=SIZES)
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_once_failed(seed: int, config: Config) -> None:
    assert differences(case(seed), config, "machine") == ""


def test_a_seed_is_always_the_same_case() -> None:
    for seed in (seed for family in FAMILIES for seed in seeds(family)[:30]):
        one, other = case(seed), case(seed)
        assert one.content == other.content
        np.testing.assert_equal(one.inputs, other.inputs)


@pytest.mark.parametrize(
    ("family", "operators"),
    [
        *(("first", 13), ("depthwise and add", 15), ("branches", 14)),
        *(("host", 42), ("segments", 44), ("between", 12), ("inputs", 37)),
        *(("arithmetic", 54), ("concatenations", 4), ("matrices", 7)),
    ],
)
def test_cases_are_diverse(family: str, operators: int) -> None:
    """Drawn models seldom compute a constant, and every operator is drawn at some time."""
    kinds, flat = set[str](), 0
    for seed in seeds(family)[:150]:
        one = case(seed)
        kinds |= {operation.kind for operation in one.graph.operations}
        last = list(reference(one).values())[-1]
        flat += last.size > 8 and last.dtype.kind in "iu" and float(np.std(last)) < 1
    assert len(kinds) == operators
    assert flat < 30


def test_branches_meet() -> None:
    """Graphs of 3 to 12 operators, nearly all with sums, most of them of different tensors."""
    counts, sums, apart = set[int](), 0, 0
    for seed in seeds("branches")[:150]:
        operations = case(seed).graph.operations
        counts.add(len(operations))
        inputs = [operation.inputs for operation in operations if operation.kind == "ADD"]
        sums += bool(inputs)
        apart += any(first != second for first, second in inputs)
    assert counts == set(range(3, 13))
    assert sums > 120 and apart > 90


def is_chain(one: Case) -> bool:
    operations = one.graph.operations
    followers = zip(operations, operations[1:], strict=False)
    return all(before.outputs[0] == after.inputs[0] for before, after in followers)


def test_a_wrong_byte_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of the reference changed: the verdict names the seed, and the operator."""
    right = reference
    seed = next(n for n in range(100) if case(n).name.count(" ") > 2 and is_chain(case(n)))

    def wrong(one: Case) -> dict[int, np.ndarray]:
        results = right(one)
        for number in list(results)[2:]:
            results[number].reshape(-1)[-1] ^= 1
        return results

    monkeypatch.setattr("conformance.reference", wrong)
    verdict = verdict_of([seed], CONFIGS)
    (found,) = verdict.wrong
    assert found.startswith(f"seed {seed} on ")
    assert "1 of " in found and "bytes differ; operator 2 " in found
    with pytest.raises(AssertionError, match=rf"^1 cases, 1 wrong\s+seed {seed} on "):
        assert_good(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SIZES)), ids=SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_many_cases_on_the_machine_model(family, number, figure) -> None:
    some = seeds(family)[number : FAMILIES[family].many : len(SIZES)]
    verdict = verdict_of(some, configs(family))
    figure(f"conformance, {family}: machine, {SIZES[number]}: {verdict}")
    assert_good(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_cases_on_the_rtl(family: str, verilator: None, figure: Callable[[str], None]) -> None:
    some = seeds(family)[: FAMILIES[family].rtl]
    verdict = verdict_of(some, configs(family, [preset("edge")]), "rtl")
    figure(f"conformance, {family}: rtl, edge: {verdict}")
    assert_good(verdict)
