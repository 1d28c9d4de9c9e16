"""What the compiler's passes hand to one another, each checked as it is made."""

from dataclasses import dataclass

import numpy as np

from celosia.hw.arch.isa import Rounding

__all__ = ["CompileError", "Dense", "Network", "Value"]


class CompileError(ValueError):
    """A model that cannot run on the core; one line with the layer and the reason."""


def _want(holds: bool, where: str, wanted: str, got: object) -> None:
    if not holds:
        raise CompileError(f"{where}: wanted {wanted}, got {got}")


@dataclass(frozen=True, kw_only=True)
class Value:
    """An activation, laid out as the items of a batch one after the other.

    Parameters
    ----------
    name : str
        As the model names it.
    bytes_per_item : int
        int8 elements of one item.
    is_input, is_output : bool
        Whether the host writes it, reads it.
    """

    name: str
    bytes_per_item: int
    is_input: bool = False
    is_output: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense:
    """A matrix product with its requantisation.

    Parameters
    ----------
    name : str
        Name of the layer in reports and messages.
    kind : str
        Operator it came from.
    place : int
        Number of that operator in the model.
    source, result : int
        Values read and written.
    rows : int
        Rows of the product for each item of the batch.
    weights : numpy.ndarray
        int8, shape ``(channels, taps)``.
    bias : numpy.ndarray
        int64, shape ``(channels,)``, in the range of int32: the model's bias with the zero point
        of the source folded in, modulo 2³².
    multiplier : numpy.ndarray
        int64, shape ``(channels,)``, 0 to 2³¹ − 1.
    left, right : numpy.ndarray
        int64, shape ``(channels,)``, 0 to 31: shifts before and after the multiplication.
    rounding : isa.Rounding
        Of the requantiser.
    zero_point, low, high : int
        int8: added last, and the range results are clamped to.
    """

    name: str
    kind: str
    place: int
    source: int
    result: int
    rows: int
    weights: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    left: np.ndarray
    right: np.ndarray
    rounding: Rounding
    zero_point: int
    low: int
    high: int

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.weights.shape[0]

    @property
    def taps(self) -> int:
        """Length of the reduction."""
        return self.weights.shape[1]

    @property
    def macs(self) -> int:
        """Multiplications for each item."""
        return self.rows * self.weights.size

    def __post_init__(self) -> None:
        """Refuse parameters that the requantiser cannot hold."""
        ranges = {
            "bias": (-(1 << 31), (1 << 31) - 1),
            "multiplier": (0, (1 << 31) - 1),
            "left": (0, 31),
            "right": (0, 31),
        }
        for field, (low, high) in ranges.items():
            values = getattr(self, field)
            _want(values.shape == (self.channels,), self.name, f"{field} by channel", values.shape)
            inside = ((values >= low) & (values <= high)).all()
            _want(bool(inside), self.name, f"{field} from {low} to {high}", values)
        clamp = -128 <= self.low <= self.high <= 127
        _want(clamp, self.name, "-128 <= low <= high <= 127", (self.low, self.high))


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """What the core does for each item: values and the layers between them, in order.

    Parameters
    ----------
    values : tuple of Value
        Activations.
    layers : tuple of Dense
        In an order that can be run.
    items : int
        Items in one invocation of the model as it stands in its file: its own batch.
    inputs, outputs : dict
        Tensor of the graph to value.
    """

    values: tuple[Value, ...]
    layers: tuple[Dense, ...]
    items: int
    inputs: dict[int, int]
    outputs: dict[int, int]

    def __post_init__(self) -> None:
        """Check that layers read what is there and fill what they say they do."""
        known = {number for number, value in enumerate(self.values) if value.is_input}
        for layer in self.layers:
            _want(layer.source in known, layer.name, "a source computed before", layer.source)
            sizes = (
                self.values[layer.source].bytes_per_item,
                self.values[layer.result].bytes_per_item,
            )
            wanted = layer.rows * layer.taps, layer.rows * layer.channels
            _want(sizes == wanted, layer.name, f"values of {wanted} bytes", sizes)
            known.add(layer.result)
