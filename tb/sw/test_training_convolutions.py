"""Training steps of networks with convolutions: machine model and RTL against exact integers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_steps import OPTION, core, require_equal, require_equal_or_refused
from turns import in_turn

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sim.check import hazards
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.networks import NETWORKS
from celosia.sw.training.scheme import Conv, Dense, Layer, TrainableNetwork
from celosia.sw.training.step.layout import Layout
from celosia.sw.training.step.program import instructions

pytestmark = pytest.mark.thorough

CORES = (
    "edge",
    "micro,unified_bytes=131072",
    "micro,unified_bytes=65536,accumulator_depth=64,tables=1",
    "nano,weight_tiles=1024",
)


def conv(height: int, width: int, inputs: int, outputs: int, kernel: int, **given: Any) -> Conv:
    settings = {"shift": 6, "error_shift": 6, "update_shift": 9, "spread": 25.0, **given}
    sizes = {"height": height, "width": width, "inputs": inputs, "outputs": outputs}
    return Conv(**sizes, kernel=kernel, **settings)


def dense(inputs: int, outputs: int, **given: Any) -> Dense:
    settings = {"shift": 6, "error_shift": 5, "update_shift": 6, "spread": 25.0, **given}
    return Dense(inputs=inputs, outputs=outputs, **settings)


def network(*layers: Layer, batch: int = 16) -> TrainableNetwork:
    return TrainableNetwork(name="small", text="", dataset="mnist", layers=layers, batch=batch)


def ended(*convs: Conv, hidden: int = 0, classes: int = 5, batch: int = 16) -> TrainableNetwork:
    """Return convolutions with one or two matrix products after them."""
    count = convs[-1].results
    if not hidden:
        return network(*convs, dense(count, classes), batch=batch)
    return network(*convs, dense(count, hidden), dense(hidden, classes), batch=batch)


#: One convolution, with a row that fills no window; two with zeros around, a hidden layer; images
#: of three channels, an even kernel, no windows; windows of three, an error shift above the noise.
_POOLED: dict[str, Any] = {"same": True, "pool": 2}
SMALL = (
    ended(conv(8, 7, 1, 5, 3, pool=2), classes=4),
    ended(conv(9, 8, 1, 6, 3, **_POOLED, shift=5), conv(4, 4, 6, 20, 3, **_POOLED), hidden=9),
    ended(conv(6, 6, 3, 18, 3), conv(4, 4, 18, 7, 2), hidden=40, classes=18),
    ended(conv(10, 11, 1, 9, 2, pool=3), conv(3, 3, 9, 17, 1, error_shift=10), classes=17),
)


@pytest.mark.parametrize(("number", "name"), in_turn(range(len(SMALL)), tuple(CORES)))
def test_steps_equal_exact_integers(number: int, name: str, seed: int) -> None:
    config = core(name)
    hazards.check_hazards(instructions(Layout(SMALL[number], config)), config)
    require_equal(SMALL[number], config, "machine", 3, seed)


@pytest.mark.parametrize("name", ["mnist_cnn_5x5", "fashion_cnn", "mnist_cnn_3x3"])
def test_steps_of_whole_networks_equal_exact_integers(name: str, seed: int) -> None:
    require_equal(replace(NETWORKS[name], batch=16), core("edge"), "machine", 2, seed)


@pytest.mark.parametrize("name", CORES)
def test_steps_with_dropout_equal_exact_integers(name: str, seed: int) -> None:
    for small in SMALL[1:3]:
        dropping, config = small.with_dropout(), core(name)
        hazards.check_hazards(instructions(Layout(dropping, config)), config)
        require_equal(dropping, config, "machine", 3, seed)


def test_steps_of_c_with_dropout_equal_exact_integers(seed: int) -> None:
    dropping = replace(NETWORKS["mnist_cnn_3x3"], batch=16).with_dropout()
    require_equal(dropping, core("edge"), "machine", 2, seed)


def random_conv(rng: np.random.Generator, height: int, width: int, inputs: int) -> Conv:
    same = bool(rng.integers(0, 2))
    kernel = int(rng.choice([1, 3, 5] if same else [1, 2, 3]))
    less = 0 if same else kernel - 1
    return conv(
        height,
        width,
        inputs,
        int(rng.integers(1, 25)),
        kernel,
        same=same,
        pool=int(rng.choice([n for n in (1, 1, 2, 3) if n <= min(height, width) - less])),
        shift=int(rng.integers(1, 10)),
        error_shift=int(rng.integers(1, 12)),
        update_shift=int(rng.integers(1, 14)),
        spread=float(rng.uniform(5, 60)),
    )


def random_case(rng: np.random.Generator) -> tuple[TrainableNetwork, Config]:
    """Return a network of one to three convolutions, and a core that may be small for it."""
    size = int(rng.choice([4, 8, 16]))
    lanes = int(rng.choice([n for n in (1, 2, 4, 8) if n <= size]))
    config = preset(
        f"micro,{OPTION},rows={size},columns={size},lanes={lanes},bus_bytes=4,"
        f"unified_bytes={rng.choice([1 << 15, 1 << 16])},tables={rng.integers(1, 5)},"
        f"accumulator_depth={rng.choice([64, 128, 256])},weight_tiles={rng.integers(200, 800)}"
    )
    height, width = (int(n) for n in rng.integers(7, 16, 2))
    inputs = int(rng.choice([1, 1, 2, 5]))
    convs: list[Conv] = []
    for _ in range(rng.integers(1, 4)):
        if min(height, width) < 4 and convs:
            break
        convs.append(random_conv(rng, height, width, inputs))
        (height, width), inputs = convs[-1].pooled, convs[-1].outputs
    hidden = int(rng.choice([0, int(rng.integers(2, 40))]))
    batch = size * int(rng.integers(1, 16 // size + 1))
    trained = ended(*convs, hidden=hidden, classes=int(rng.integers(2, 20)), batch=batch)
    return trained.with_dropout() if hidden and rng.random() < 0.4 else trained, config


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n >= 12)) for n in range(24)]
)
def test_random_networks_on_random_cores(number: int, seed: int) -> None:
    trained, config = random_case(np.random.default_rng([seed, number]))
    require_equal_or_refused(trained, config, 2, seed)


@pytest.mark.parametrize("name", ["nano,weight_tiles=1024", "transformer"])
def test_steps_on_the_rtl_equal_exact_integers(name: str, seed: int, verilator: None) -> None:
    assert require_equal(SMALL[1], core(name), "rtl", 2, seed) > 0
    assert require_equal(SMALL[1].with_dropout(), core(name), "rtl", 2, seed) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [("mnist_cnn_3x3", 2_000_000), ("fashion_cnn", 1_500_000), ("mnist_cnn_5x5", 5_600_000)],
)
def test_twenty_steps_on_the_rtl(name: str, most: int, seed: int, verilator: None) -> None:
    """20 steps of batch 32 at edge."""
    cycles = require_equal(NETWORKS[name], core("edge"), "rtl", 20, seed)
    assert cycles < 20 * most


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("edge,accumulator_depth=64", "accumulator_depth of at least 96, got 64"),
        ("edge,unified_bytes=32768", "unified_bytes of at least"),
        ("edge,weight_tiles=64", "weight_tiles of at least"),
        ("edge,parameter_channels=128", "parameter_channels of at least"),
    ],
)
def test_refusals(name: str, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        Layout(NETWORKS["mnist_cnn_3x3"], core(name))


def test_dropout_without_a_hidden_product() -> None:
    message = "dropout: wanted a hidden matrix product, got conv 3x3x64"
    with pytest.raises(InputError, match=message):
        NETWORKS["fashion_cnn"].with_dropout()


def test_a_network_refuses_what_does_not_follow() -> None:
    one, two, three, last = SMALL[1].layers
    for layers, wanted in (
        ((one, replace(two, inputs=7), three, last), "wanted inputs of 4x4x6, got 4x4x7"),
        ((one, three, last), "wanted 96 inputs, got 80"),
        ((one, two), "wanted a matrix product as the last one, got a convolution"),
        ((one, last, two), "wanted 96 inputs, got 9"),
        ((one, two, three, conv(3, 3, 1, 2, 1)), "wanted convolutions first"),
        ((replace(one, kernel=2), two, three, last), "wanted inputs of 4x3x6, got 4x4x6"),
        ((one, conv(4, 4, 6, 20, 2, same=True), dense(180, 9)), "an odd one with same, got 2"),
        ((conv(3, 3, 1, 2, 3, pool=2), dense(0, 2)), "a kernel of 3 and a pool of 2 fit, got 3x3"),
        ((replace(one, shift=0), two, three, last), "shift: wanted 1 to 31, got 0"),
    ):
        with pytest.raises(InputError, match=wanted):
            network(*layers)
