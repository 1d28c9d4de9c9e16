"""Values between layers, and the scaling of sums to values."""

import math
from dataclasses import dataclass, field

import numpy as np

from celosia.hw.arch.isa import Rounding
from celosia.sw.layers.errors import require_layer
from celosia.sw.layers.grids import Grid


@dataclass(frozen=True, kw_only=True)
class Value:
    """An activation: int8 of ``height`` × ``width`` pixels of ``channels``, for each sample."""

    name: str  #: Name in the model.
    #: Extents. A vector is one pixel.
    height: int
    width: int
    channels: int
    fill: int = 0  #: int8 of the bytes around the pixels, for consumers that read past the edge.
    #: True if pixels lie 1 byte modulo R apart, so that R pixels have one byte each in R banks.
    spread: bool = False
    #: Input whose bytes in external memory it has, or whose place it takes; -1 for its own.
    original: int = -1
    offset: int = 0  #: First of these bytes.
    pitch: int = 0  #: Bytes from one pixel to the next in external memory; 0 side by side.
    #: Grid on which images are loaded, and the rows and columns of one, if it is a grid.
    grid: Grid | None = None
    image: tuple[int, int] = (0, 0)
    #: True if the host writes it, reads it.
    is_input: bool = False
    is_output: bool = False
    #: int8, shape ``(height, width, channels)``: contents of a constant, which counts as an input.
    contents: np.ndarray | None = field(default=None, compare=False)

    @property
    def end(self) -> int:
        """Byte after the last one in external memory, as ``offset``."""
        apart = (self.height * self.width - 1) * self.pitch + self.channels
        return self.offset + (apart if self.pitch else self.bytes_per_item)

    @property
    def bytes_per_item(self) -> int:
        """Elements of one sample; of a grid those of its images."""
        if self.grid:
            return self.grid.images * math.prod(self.image) * self.channels
        return self.height * self.width * self.channels


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Parameters of the requantiser."""

    bias: np.ndarray  #: int64, shape ``(channels,)``, in the range of int32.
    multiplier: np.ndarray  #: int64, shape ``(channels,)``, 0 to 2³¹ − 1.
    #: int64, shape ``(channels,)``, 0 to 31: shifts before and after the multiplication.
    left: np.ndarray
    right: np.ndarray
    rounding: Rounding  #: Rounding of the requantiser.
    #: int8: added last, and the range of the clamp.
    zero_point: int
    low: int
    high: int
    note: str = ""  #: Remark for the report of layers; empty if there is none.

    def check(self, where: str, channels: int) -> None:
        """Refuse parameters that the requantiser cannot hold."""
        ranges = {
            "bias": (-(1 << 31), (1 << 31) - 1),
            "multiplier": (0, (1 << 31) - 1),
            "left": (0, 31),
            "right": (0, 31),
        }
        for name, (low, high) in ranges.items():
            values = getattr(self, name)
            require_layer(values.shape == (channels,), where, f"{name} by channel", values.shape)
            inside = ((values >= low) & (values <= high)).all()
            require_layer(bool(inside), where, f"{name} from {low} to {high}", values)
        clamp = -128 <= self.low <= self.high <= 127
        require_layer(clamp, where, "-128 <= low <= high <= 127", (self.low, self.high))


def uniform_scaling(
    bias: int, pair: tuple[int, int], rounding: Rounding, ends: tuple[int, int, int]
) -> Scaling:
    """Return the parameters of one channel: see ``scaling_of``."""
    multiplier, shift = np.array([pair], np.int64).T
    return scaling_of(np.array([bias], np.int64), multiplier, shift, rounding, ends)


def scaling_of(
    bias: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    rounding: Rounding,
    ends: tuple[int, int, int],
) -> Scaling:
    """Return parameters by channel.

    - ``bias``, ``multiplier``, ``shift``: int64, shape ``(channels,)``; shifts to the right are
      negative.
    - ``rounding``: rounding of the requantiser.
    - ``ends``: zero point, and the range of the clamp.
    """
    zero_point, low, high = ends
    return Scaling(
        bias=bias,
        multiplier=multiplier,
        left=np.maximum(shift, 0),
        right=np.maximum(-shift, 0),
        rounding=rounding,
        zero_point=zero_point,
        low=low,
        high=high,
    )
