"""Operators of two inputs, to make small networks of."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from celosia.sw.frontend.chain import Chain, want_name, want_zero_point
from celosia.sw.frontend.serialize import ACTIVATIONS
from celosia.sw.operators.elementwise import single_constant as uniform

__all__ = ["Add", "Binary"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Binary:
    """One ADD, SUB, MUL, MAXIMUM or MINIMUM operator, of the last result and something else.

    Parameters
    ----------
    kind : str
        The operator.
    second : str or numpy.ndarray
        Name of an earlier result, which may also be the last one, or an int8 constant. Broadcasts.
    second_scale, second_zero_point : float, int
        Quantisation of the constant.
    swapped : bool
        Whether the last result comes second.
    output_scale : float
        Scale of the result.
    output_zero_point : int
        Zero point of the result, -128 to 127.
    activation : str
        Fused activation: NONE, RELU, RELU_N1_TO_1 or RELU6.

    Raises
    ------
    ValueError
        If a zero point or name is not as said above.
    """

    KINDS: ClassVar = ("ADD", "MUL", "SUB")
    CHOICES: ClassVar = ("MAXIMUM", "MINIMUM")

    kind: str
    second: str | np.ndarray
    second_scale: float = 1.0
    second_zero_point: int = 0
    swapped: bool = False
    output_scale: float
    output_zero_point: int = 0
    activation: str = "NONE"

    def __post_init__(self) -> None:
        """Refuse unknown names and zero points outside int8."""
        want_name("kind", self.kind, (*self.KINDS, *self.CHOICES))
        want_zero_point(self.output_zero_point)
        want_zero_point(self.second_zero_point)
        want_name("activation", self.activation, ACTIVATIONS)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        if isinstance(self.second, str):
            number = chain.find(self.second)
        else:
            number = chain.constant(
                "second", self.second, self.second_scale, self.second_zero_point
            )
        shape, other = chain.last.shape, chain.tensor(number).shape
        try:
            result = np.broadcast_shapes(shape, other)
        except ValueError:
            raise ValueError(f"wanted two inputs of one shape, got {shape} and {other}") from None
        inputs = (number, chain.number) if self.swapped else (chain.number, number)
        said: dict[str, Any] = {"activation": self.activation}
        said |= uniform(*(chain.tensor(number) for number in inputs))
        chain.operator(
            self.kind,
            result,
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            inputs=inputs,
            **({} if self.kind in self.CHOICES else said),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Add(Binary):
    """One ADD operator: see ``Binary``."""

    kind: str = "ADD"
