"""Random operators and chains of them: LiteRT's reference kernels, machine model and RTL agree."""

from collections.abc import Callable

import numpy as np
import pytest
from cases import Case, case
from conformance import Verdict, differences, judge, reference

from celosia.hw.arch.config import Config, preset
from celosia.sim.simulators import SimulatorNotFound, find_verilator

SIZES = (
    *("nano", "micro", "edge", "edge,weight_rows=4", "micro,columns=12,lanes=4"),
    # Too small for what the others hold at once.
    *("micro,unified_bytes=8192", "edge,accumulator_depth=64,weight_tiles=6,parameter_channels=16"),
)
CONFIGS = [preset(sizes) for sizes in SIZES]

#: Seeds that have found bugs.
REGRESSIONS = (20, 42, 356, 492, 541, 1126, 2451, 4045)

#: Most cases in a hundred that the compiler may refuse.
REFUSED = 6


def assert_good(verdict: Verdict) -> None:
    assert not verdict.wrong, "\n".join([str(verdict), *verdict.wrong])
    assert verdict.refused.total() * 100 <= max(REFUSED * verdict.run, 300), str(verdict)


@pytest.fixture(autouse=True)
def litert_is_there() -> None:
    pytest.importorskip("ai_edge_litert.interpreter")


@pytest.fixture
def verilator() -> None:
    try:
        find_verilator()
    except SimulatorNotFound as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("number", range(len(SIZES)), ids=SIZES)
def test_some_cases(number: int) -> None:
    assert_good(judge(range(number, 105, len(SIZES)), CONFIGS))


@pytest.mark.parametrize("config", CONFIGS, ids=SIZES)
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_once_failed(seed: int, config: Config) -> None:
    assert differences(case(seed), config, "machine") == ""


def test_a_seed_is_always_the_same_case() -> None:
    for seed in range(30):
        one, other = case(seed), case(seed)
        assert one.content == other.content
        np.testing.assert_array_equal(one.inputs, other.inputs)


def test_cases_are_diverse() -> None:
    """What a drawn model computes is seldom all the same, and everything is drawn at some time."""
    kinds, flat = set[str](), 0
    for seed in range(300):
        one = case(seed)
        kinds |= {operation.kind for operation in one.graph.operations}
        last = list(reference(one).values())[-1]
        flat += last.size > 8 and float(np.std(last)) < 1
    assert len(kinds) == 13
    assert flat < 30


def test_a_wrong_byte_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of the reference changed: the verdict names the seed, and the operator."""
    right = reference
    seed = next(n for n in range(100) if len(case(n).graph.operations) > 3)

    def wrong(one: Case) -> dict[int, np.ndarray]:
        results = right(one)
        for number in list(results)[2:]:
            results[number].reshape(-1)[-1] ^= 1
        return results

    monkeypatch.setattr("conformance.reference", wrong)
    verdict = judge([seed], CONFIGS)
    (found,) = verdict.wrong
    assert found.startswith(f"seed {seed} on ")
    assert "1 of " in found and "bytes differ; operator 2 " in found
    with pytest.raises(AssertionError, match=rf"^1 cases, 1 wrong\s+seed {seed} on "):
        assert_good(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SIZES)), ids=SIZES)
def test_many_cases_on_the_machine_model(number: int, figure: Callable[[str], None]) -> None:
    verdict = judge(range(number, 1000, len(SIZES)), CONFIGS)
    figure(f"conformance: machine, {SIZES[number]}: {verdict}")
    assert_good(verdict)


@pytest.mark.slow
def test_many_cases_on_the_rtl(verilator, figure: Callable[[str], None]) -> None:
    verdict = judge(range(200), [preset("edge")], "rtl")
    figure(f"conformance: rtl, edge: {verdict}")
    assert_good(verdict)
