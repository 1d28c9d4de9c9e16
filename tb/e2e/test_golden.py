"""Whole networks at ``edge``: the bytes of ``golden.json``, and no cycle more than it has."""

import os
from collections.abc import Callable

import golden
import pytest
from whole_networks.golden import MLPERF, NETWORKS

FROZEN = golden.stored()
EACH = [pytest.param(n, marks=[pytest.mark.slow] * NETWORKS[n].slow) for n in NETWORKS]


def skip_without_file(name: str) -> None:
    if name in MLPERF and not os.environ.get("CELOSIA_MODELS"):
        pytest.skip("CELOSIA_MODELS is not set")


def test_every_network_is_frozen() -> None:
    assert sorted(FROZEN) == sorted(NETWORKS)
    for name, network in NETWORKS.items():
        wanted = {"code", "constants", "cycles", "outputs"} | ({"rtl"} if network.rtl else set())
        assert set(FROZEN[name]) == wanted


@pytest.mark.parametrize("name", EACH)
def test_bytes_and_estimated_cycles(name: str, figure: Callable[[str], None]) -> None:
    skip_without_file(name)
    program, frozen = golden.compiled(name), FROZEN[name]
    results, _ = golden.ran(program, NETWORKS[name].samples, "machine")
    assert golden.outputs(results) == frozen["outputs"]
    cycles = golden.estimated(program)
    assert cycles <= int(frozen["cycles"])
    if cycles < int(frozen["cycles"]):
        figure(f"{name}: {cycles:,} estimated cycles, golden.json has {frozen['cycles']:,}")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NETWORKS if NETWORKS[name].rtl])
def test_bytes_and_cycles_of_the_rtl(name, figure, verilator) -> None:
    skip_without_file(name)
    results, cycles = golden.ran(golden.compiled(name), NETWORKS[name].samples, "rtl")
    assert golden.outputs(results) == FROZEN[name]["outputs"]
    assert cycles is not None
    assert cycles <= int(FROZEN[name]["rtl"])
    if cycles < int(FROZEN[name]["rtl"]):
        figure(f"{name}: {cycles:,} cycles, golden.json has {FROZEN[name]['rtl']:,}")
