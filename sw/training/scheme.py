"""Scheme of training: layers, shifts, noise, and the number formats of weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from celosia.sw.runtime.arrays import InputError

#: Bits of the low byte of a weight that count: a weight is ``high · 2^LOW_BITS + low``.
LOW_BITS = 6

#: High bytes are -MOST_HIGH to MOST_HIGH, as the weights of a .tflite file.
MOST_HIGH = 127

#: Greatest weight; the low bytes of one that saturates go around below it.
MOST_WEIGHT = (MOST_HIGH << LOW_BITS) + (1 << (LOW_BITS - 1))

#: Greatest error, and value of the right class: probabilities are in steps of 1 / ONE.
ONE = 127

#: Bits of a byte of noise at most.
NOISE_BITS = 8

#: Greatest shift that noise of NOISE_BITS reaches through a tile of int8.
MOST_SHIFT = NOISE_BITS + 6

#: Greatest shift of updates: sums and noise are int32.
MOST_UPDATE_SHIFT = 30

#: Shift from a product of two probabilities to one: ``ONE²`` to ``ONE``.
ERROR_SHIFT = 7

#: Classes at most: the matrix that takes the mean from their errors is of int8.
MOST_CLASSES = 128

#: Shift of the sum of exponentials, above ONE, to the index of its reciprocal.
RECIPROCAL_SHIFT = 2


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A matrix product without bias; ReLU follows, unless it is the last layer.

    All shifts divide by a power of two. ``shift``: sums to activations; ``error_shift``: sums of
    errors to the errors of the inputs, unused in the first layer; ``update_shift``: sums of
    gradients to steps of the low byte; ``spread``: standard deviation of the first high bytes.
    """

    inputs: int
    outputs: int
    shift: int
    error_shift: int = 0
    update_shift: int
    spread: float


@dataclass(frozen=True, kw_only=True)
class Network:
    """Network that trains, and its settings.

    ``name``: of files; ``dataset``: usual data set; ``layers``: from the images to the logits;
    ``batch``: images of a step; ``exponent``: steps of the logits in which e^x grows by e;
    ``halvings``: epochs, counted from 0, before which all updates are halved.
    """

    name: str
    text: str
    dataset: str
    layers: tuple[Dense, ...]
    batch: int = 32
    exponent: float = 6.0
    halvings: tuple[int, ...] = (5, 7)

    def __post_init__(self) -> None:
        """Refuse layers that do not follow one another, and shifts that noise cannot reach."""
        for one, two in zip(self.layers, self.layers[1:], strict=False):
            if one.outputs != two.inputs:
                raise InputError(f"layers: wanted {one.outputs} inputs, got {two.inputs}")
        if not 2 <= self.layers[-1].outputs <= MOST_CLASSES:
            wanted = f"2 to {MOST_CLASSES} classes"
            raise InputError(f"layers: wanted {wanted}, got {self.layers[-1].outputs}")
        for layer in self.layers[1:]:
            _require_shift("error_shift", layer.error_shift, MOST_SHIFT)
        for layer in self.layers:
            _require_shift("update_shift", layer.update_shift, MOST_UPDATE_SHIFT)

    @property
    def macs(self) -> int:
        """Multiplications of a step: forward, gradients, and errors of all layers but the first."""
        sizes = [layer.inputs * layer.outputs for layer in self.layers]
        return self.batch * (3 * sum(sizes) - sizes[0])

    def at(self, epoch: int) -> "Network":
        """Return the network with the updates of an epoch."""
        more = sum(epoch >= first for first in self.halvings)
        most = MOST_UPDATE_SHIFT
        layers = (replace(x, update_shift=min(x.update_shift + more, most)) for x in self.layers)
        return replace(self, layers=tuple(layers), halvings=())


def _require_shift(name: str, shift: int, most: int) -> None:
    if not 1 <= shift <= most:
        raise InputError(f"{name}: wanted 1 to {most}, got {shift}")


def noise_bits(shift: int) -> int:
    """Return the bits of the noise of a shift that rounds stochastically."""
    return min(shift, NOISE_BITS)


def noise_factor(shift: int) -> int:
    """Return the factor of noise bytes that makes them as wide as a shift."""
    return 1 << (shift - noise_bits(shift))


def _mlp(inputs: int, hidden: int, outputs: int) -> tuple[Dense, ...]:
    return (
        Dense(inputs=inputs, outputs=hidden, shift=10, update_shift=8, spread=8.0),
        Dense(inputs=hidden, outputs=outputs, shift=8, error_shift=6, update_shift=7, spread=24.0),
    )


#: Networks by name.
NETWORKS: Mapping[str, Network] = {
    "mnist_mlp": Network(
        name="mnist_mlp",
        text="MLP 784-128-10, ReLU, no biases",
        dataset="mnist",
        layers=_mlp(784, 128, 10),
    ),
}
