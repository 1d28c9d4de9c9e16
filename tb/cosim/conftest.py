import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "cosim_runner", Path(__file__).with_name("runner.py")
)
assert _spec is not None and _spec.loader is not None
runner = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runner)


@pytest.fixture(params=runner.simulators())
def simulator(request: pytest.FixtureRequest) -> str:
    """Name of the simulator: what Verilator does in a second takes Icarus half a minute."""
    return request.param


@pytest.fixture
def cosim(request, simulator, seed, waves) -> Callable[..., None]:
    """Run the bench: ``cosim(config, **options)``, see ``runner.run``."""

    def run(config: object, **options: object) -> None:
        name = re.sub(r"[^\w.-]+", "_", request.node.name)
        folder = runner.BUILD / "runs" / name
        runner.run(config, sim=simulator, seed=seed, folder=folder, waves=waves, **options)

    return run
