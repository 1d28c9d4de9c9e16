import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.sw.cli import main

# Tests of this folder share modules; importlib mode does not put the folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

Reference = Callable[[bytes, np.ndarray], np.ndarray]


@pytest.fixture(scope="session")
def litert() -> Reference:
    """Output of LiteRT's reference kernels for a model's contents and any number of inputs."""
    prerequisites.package("ai_edge_litert.interpreter")
    return lambda content, x: prerequisites.litert_outputs(content, x)[0]


@pytest.fixture(scope="session")
def run_digits(mnist_model, mnist, tmp_path_factory) -> Callable[[int, str, str], np.ndarray]:
    """Runs ``celosia run`` on so many digits, on a core and a device; returns the results."""

    def run(count: int, sizes: str, device: str) -> np.ndarray:
        folder = tmp_path_factory.mktemp("digits")
        pixels = mnist[0][:count].reshape(count, -1).astype(np.int16)
        np.save(folder / "x.npy", (pixels - 128).astype(np.int8))
        arguments = ["run", str(mnist_model), "--input", str(folder / "x.npy")]
        arguments += ["--output", str(folder / "y.npy"), "--preset", sizes, "--device", device]
        assert main(arguments) == 0
        return np.load(folder / "y.npy")

    return run
