"""Weights that train, and sums of an operation of a training step before shift and clamp."""

from dataclasses import dataclass, field
from typing import Any

from celosia.sw.ir.graph import Operation


@dataclass(frozen=True)
class Weights:
    """Matrix of weights that train: tensors of its high and low bytes, by blocks of columns."""

    name: str
    highs: tuple[int, ...]
    lows: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def high(self) -> int:
        """The high bytes of weights of one block."""
        (number,) = self.highs
        return number


@dataclass(frozen=True)
class Sums:
    """Sums of an operation, before shift and clamp.

    ``role``: name of the shift; ``exponent``: of the sums; ``addends``: tensors and factors;
    ``noise``: shape of noise as wide as the shift, which is added, or none; ``records``: parameters
    that shift the product before addends are added, or none; ``halved``: half of the inputs are
    left out while the network trains, so the sums are half as large.
    """

    role: str
    kind: str
    operands: tuple[int, ...]
    shape: tuple[int, ...]
    exponent: int
    attributes: dict[str, Any] = field(default_factory=dict)
    addends: tuple[tuple[int, int], ...] = ()
    noise: tuple[int, ...] | None = None
    records: int | None = None
    halved: bool = False


def has_bias(operation: Operation) -> bool:
    """Return whether an operation with weights has a bias."""
    return len(operation.inputs) > 2 and operation.inputs[2] != -1
