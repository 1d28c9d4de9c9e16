"""Operators that compute each element from one element alone, to make small networks of."""

from dataclasses import dataclass

import numpy as np

from celosia.sw.frontend.chain import Chain, want_name, want_zero_point
from celosia.sw.operators.registry import OPERATORS as FUNCTIONS

__all__ = ["Function", "Prelu"]


@dataclass(frozen=True, kw_only=True)
class Function:
    """One operator that computes each element from one element alone.

    Parameters
    ----------
    kind : str
        Its name, for instance TANH.
    output_scale, output_zero_point : float, int
        Quantisation of the result; as that of the input unless given.
    alpha : float, optional
        Slope of LEAKY_RELU below zero.
    approximate : bool, optional
        Whether GELU goes by tanh.

    Raises
    ------
    ValueError
        If there is no such operator, or the zero point is outside int8.
    """

    kind: str
    output_scale: float | None = None
    output_zero_point: int | None = None
    alpha: float | None = None
    approximate: bool | None = None

    def __post_init__(self) -> None:
        """Refuse unknown names, and zero points outside int8."""
        want_name("kind", self.kind, FUNCTIONS)
        want_zero_point(self.output_zero_point)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        given = {"alpha": self.alpha, "approximate": self.approximate}
        chain.operator(
            self.kind,
            chain.last.shape,
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            **{name: value for name, value in given.items() if value is not None},
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prelu:
    """One PRELU operator.

    Parameters
    ----------
    alpha : int, or int8 array
        Slope below zero, of all channels; slopes that broadcast.
    alpha_scale, alpha_zero_point : float, int
        Its quantisation.
    output_scale, output_zero_point : float, int
        Quantisation of the result; as that of the input unless given.

    Raises
    ------
    ValueError
        If the zero point is outside int8.
    """

    alpha: int | np.ndarray
    alpha_scale: float
    alpha_zero_point: int = 0
    output_scale: float | None = None
    output_zero_point: int | None = None

    def __post_init__(self) -> None:
        """Refuse zero points outside int8."""
        want_zero_point(self.output_zero_point)

    def add(self, chain: Chain) -> None:
        """Add the operator."""
        alpha = np.atleast_1d(np.asarray(self.alpha, np.int8))
        single = {}
        if np.unique(alpha).size == 1:
            slope = int(alpha.reshape(-1)[0]) - self.alpha_zero_point
            single = {"alpha": slope, "alpha_scale": float(np.float32(self.alpha_scale))}
        chain.operator(
            "PRELU",
            chain.last.shape,
            [chain.constant("alpha", alpha, self.alpha_scale, self.alpha_zero_point)],
            scale=self.output_scale,
            zero_point=self.output_zero_point,
            **single,
        )
