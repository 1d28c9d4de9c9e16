"""Training steps on a device, compared with exact integers."""

import numpy as np
import training_reference as reference

from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sim.check import hazards
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.backends import open_device
from celosia.sw.training import batches, weights
from celosia.sw.training.scheme import Conv, TrainableNetwork
from celosia.sw.training.step import constants
from celosia.sw.training.step.layout import Layout
from celosia.sw.training.step.program import encoded, instructions

OPTION = "activation_weights=true"


def core(name: str) -> Config:
    return preset(f"{name},{OPTION}")


def part_lengths(layout: Layout) -> list[list[int]]:
    """Return the rows of each layer's weights that share noise, part by part.

    Rows of a convolution, and of the product after one, are groups of channels. In memory a group
    takes whole tiles, unless the images have one channel.
    """
    found, layers = [], layout.network.layers
    for number, layer in enumerate(layers):
        before = layers[number - 1] if number else None
        channels = before.outputs if isinstance(before, Conv) else layer.inputs
        groups = layer.rows // channels
        single = isinstance(layer, Conv) and not number and channels == 1
        wide = 1 if single else layout.padded(channels)
        real = np.tile(np.arange(wide) < channels, groups)
        found.append([int(real[first:last].sum()) for first, last in layout.parts(number)])
    return found


def require_equal(
    network: TrainableNetwork, config: Config, device: str, steps: int, seed: int
) -> int:
    """Compare weights and logits of some steps with the reference; return the cycles."""
    layout = Layout(network, config)
    code = encoded(layout)
    rng = np.random.default_rng(seed)
    opened = open_device(device, config, layout.program + len(code) + 64)
    known = weights.random(network, seed)
    for address, content in constants.contents(layout).items():
        opened.write(address, content)
    opened.write(layout.program, code)
    weights.write(layout, known, opened)
    cycles = 0
    shape = layout.batch, network.layers[0].values
    for step in range(steps):
        images = rng.integers(0, 128, shape, np.int8) * rng.integers(0, 2, shape, np.int8)
        labels = rng.integers(0, layout.classes, layout.batch)
        batch = batches.draw(layout, images, labels, batches.generator(seed, step))
        opened.write(layout.host, batches.packed(layout, batch))
        result = opened.run(layout.program, len(code) // WORD_BYTES)
        assert result.error is None
        cycles += result.cycles or 0
        known, logits = reference.train_step(network, known, batch, part_lengths(layout))
        scores = np.frombuffer(opened.read(layout.scores, logits.size), np.int8)
        np.testing.assert_array_equal(scores.reshape(logits.shape), logits)
        for one, two in zip(weights.read(layout, opened), known, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=f"step {step}")
    opened.close()
    return cycles


def require_equal_or_refused(
    network: TrainableNetwork, config: Config, steps: int, seed: int
) -> None:
    """Check the program of a network and compare it on the machine model, unless it is refused."""
    try:
        program = instructions(Layout(network, config))
    except InputError as error:
        assert "wanted" in str(error)
        return
    hazards.check_hazards(program, config)
    require_equal(network, config, "machine", steps, seed)
