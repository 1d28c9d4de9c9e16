"""Scheme of training: layers, shifts, noise, and the number formats of weights."""

from dataclasses import dataclass, replace

from celosia.sw.layers.step import NOISE_BITS
from celosia.sw.operators.step_errors import MOST_CLASSES
from celosia.sw.runtime.arrays import InputError

#: Greatest shift that noise of NOISE_BITS reaches through a tile of int8.
MOST_SHIFT = NOISE_BITS + 6

#: Greatest shift of updates: sums and noise are int32.
MOST_UPDATE_SHIFT = 30

#: Greatest shift of the vector unit.
MOST_RIGHT = 31


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A matrix product without bias after convolutions; ReLU follows but for the last layer.

    All shifts divide by a power of two. ``shift``: sums to activations; ``error_shift``: sums of
    errors to the errors of the inputs; ``update_shift``: sums of gradients to steps of the low
    byte; ``spread``: standard deviation of the first high bytes; ``dropout``: half of the results,
    others for each image and step, are 0 while it trains.
    """

    inputs: int
    outputs: int
    shift: int
    error_shift: int = 0
    update_shift: int
    spread: float
    dropout: bool = False

    @property
    def rows(self) -> int:
        """Rows of the matrix of weights; its columns are the outputs."""
        return self.inputs

    @property
    def values(self) -> int:
        """Inputs of one image."""
        return self.inputs

    @property
    def results(self) -> int:
        """Outputs of one image."""
        return self.outputs

    @property
    def macs(self) -> int:
        """Multiplications of the forward pass of one image."""
        return self.inputs * self.outputs


@dataclass(frozen=True, kw_only=True)
class Conv:
    """A convolution without bias, ReLU, and the maxima of square windows.

    ``height``, ``width``, ``inputs``: an image and its channels; ``outputs``: channels of the
    results; ``kernel``: side of the kernel; ``same``: zeros around the images, so that results have
    their size; ``pool``: side of the windows of the maxima, 1 for none; others as in Dense.
    Rows and columns that fill no window are left out.
    """

    height: int
    width: int
    inputs: int
    outputs: int
    kernel: int
    same: bool = False
    pool: int = 1
    shift: int
    error_shift: int = 0
    update_shift: int
    spread: float

    @property
    def padding(self) -> int:
        """Zeros on each side of an image."""
        return (self.kernel - 1) // 2 if self.same else 0

    @property
    def pooled(self) -> tuple[int, int]:
        """Height and width of the results."""
        less = self.kernel - 1 - 2 * self.padding
        return (self.height - less) // self.pool, (self.width - less) // self.pool

    @property
    def rows(self) -> int:
        """Rows of the matrix of weights: kernel row, kernel column, channel."""
        return self.kernel**2 * self.inputs

    @property
    def values(self) -> int:
        """Inputs of one image."""
        return self.height * self.width * self.inputs

    @property
    def results(self) -> int:
        """Outputs of one image."""
        return self.pooled[0] * self.pooled[1] * self.outputs

    @property
    def macs(self) -> int:
        """Multiplications of the forward pass of one image."""
        return self.results * self.pool**2 * self.rows


Layer = Dense | Conv


@dataclass(frozen=True, kw_only=True)
class TrainableNetwork:
    """Network that trains, and its settings.

    ``name``: of files; ``dataset``: usual data set; ``layers``: from the images to the logits,
    convolutions first; ``batch``: images of a step; ``exponent``: steps of the logits in which e^x
    grows by e; ``halvings``: epochs, counted from 0, before which all updates are halved.
    """

    name: str
    text: str
    dataset: str
    layers: tuple[Layer, ...]
    batch: int = 32
    exponent: float = 6.0
    halvings: tuple[int, ...] = (5, 7)

    def __post_init__(self) -> None:
        """Refuse layers that do not follow one another, and shifts that noise cannot reach."""
        for one, two in zip(self.layers, self.layers[1:], strict=False):
            _require_following(one, two)
        last = self.layers[-1]
        if isinstance(last, Conv):
            raise InputError("layers: wanted a matrix product as the last one, got a convolution")
        if not 2 <= last.outputs <= MOST_CLASSES:
            requirement = f"2 to {MOST_CLASSES} classes"
            raise InputError(f"layers: wanted {requirement}, got {last.outputs}")
        if isinstance(last, Dense) and last.dropout:
            raise InputError("layers: wanted dropout in hidden layers, got it in the last one")
        if not self.convs:
            raise InputError("layers: wanted a convolution as the first one, got a matrix product")
        for conv in self.convs:
            _require_windows(conv)
        for layer in self.layers[1:]:
            _require_shift("error_shift", layer.error_shift, MOST_SHIFT)
        for layer in self.layers:
            _require_shift("shift", layer.shift, MOST_RIGHT)
            _require_shift("update_shift", layer.update_shift, MOST_UPDATE_SHIFT)

    @property
    def convs(self) -> tuple[Conv, ...]:
        """The convolutions, which are the first layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, Conv))

    @property
    def macs(self) -> int:
        """Multiplications of a step: forward, gradients, and errors of all layers but the first."""
        sizes = [layer.macs for layer in self.layers]
        return self.batch * (3 * sum(sizes) - sizes[0])

    @property
    def dropping(self) -> tuple[int, ...]:
        """Numbers of the layers with dropout."""
        layers = enumerate(self.layers)
        return tuple(n for n, layer in layers if isinstance(layer, Dense) and layer.dropout)

    def sum_shift(self, number: int) -> int:
        """Return the shift of a layer's sums in training: one less after dropout.

        So the sums are, on average, as large as those of all results.
        """
        return self.layers[number].shift - (number - 1 in self.dropping)

    def with_dropout(self) -> "TrainableNetwork":
        """Return the network with dropout in all hidden matrix products."""
        *hidden, last = self.layers
        if not any(isinstance(layer, Dense) for layer in hidden):
            raise InputError(f"dropout: wanted a hidden matrix product, got {self.text}")
        layers = (replace(x, dropout=True) if isinstance(x, Dense) else x for x in hidden)
        return replace(self, layers=(*layers, last))

    def at(self, epoch: int, cores: int = 1) -> "TrainableNetwork":
        """Return the network with the updates of an epoch.

        They are halved for each fourfold number of cores, rounded up: a step of N cores changes the
        weights about as the square root of N steps.
        """
        more = sum(epoch >= first for first in self.halvings) + cores.bit_length() // 2
        limit = MOST_UPDATE_SHIFT
        layers = (replace(x, update_shift=min(x.update_shift + more, limit)) for x in self.layers)
        return replace(self, layers=tuple(layers), halvings=())


def _require_following(one: Layer, two: Layer) -> None:
    """Refuse a layer that does not take the results of the one before."""
    if isinstance(two, Conv):
        if isinstance(one, Dense):
            raise InputError("layers: wanted convolutions first, got one after a matrix product")
        offered, taken = (*one.pooled, one.outputs), (two.height, two.width, two.inputs)
        if offered != taken:
            shapes = ("x".join(map(str, shape)) for shape in (offered, taken))
            raise InputError("layers: wanted inputs of {}, got {}".format(*shapes))
    elif one.results != two.inputs:
        raise InputError(f"layers: wanted {one.results} inputs, got {two.inputs}")


def _require_windows(conv: Conv) -> None:
    if min(conv.pooled) < 1:
        raise InputError(
            f"layers: wanted images that a kernel of {conv.kernel} and a pool of {conv.pool} fit, "
            f"got {conv.height}x{conv.width}"
        )
    if conv.same and conv.kernel % 2 == 0:
        raise InputError(f"kernel: wanted an odd one with same, got {conv.kernel}")


def _require_shift(name: str, shift: int, limit: int) -> None:
    if not 1 <= shift <= limit:
        raise InputError(f"{name}: wanted 1 to {limit}, got {shift}")


def noise_bits(shift: int) -> int:
    """Return the bits of the noise of a shift that rounds stochastically."""
    return min(shift, NOISE_BITS)


def noise_factor(shift: int) -> int:
    """Return the factor of noise bytes that makes them as wide as a shift."""
    return 1 << (shift - noise_bits(shift))
