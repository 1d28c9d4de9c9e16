"""Comparisons and logic, whose results are true or false."""

from collections.abc import Sequence

import numpy as np

from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.multiplier import quantize_multiplier
from celosia.sw.layers.record import NUMBERS, Attributes, Kernel, Operator, Shape, by_type, require
from celosia.sw.operators.elementwise import two
from celosia.sw.operators.fixed_point import centred, times
from celosia.sw.operators.functions import same_shape
from celosia.sw.operators.plain import of_two
from celosia.sw.operators.real import of_each

_KINDS = {
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
}
_BYTES, _BOOL = ("int8", "uint8"), ("bool",)
_ORDERED = (*_BYTES, "int16", *NUMBERS)

#: Bits by which bytes are shifted before they are brought to one scale.
_SHIFT = 8


def _scaled_types(kind: str) -> tuple[str, ...]:
    """Return the types whose scales a comparison uses; not int16 where order matters."""
    return (*_BYTES, "int16") if kind in ("EQUAL", "NOT_EQUAL") else _BYTES


def _shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    if operator.sources[0].dtype in _scaled_types(operator.kind):
        for operand in operator.sources:
            require(operand.scale < 1, "scales below 1", f"{operand.scale:.6g}")
    return two(operator, attributes)


def _scaled(compare: np.ufunc) -> Kernel:
    """Return the kernel of a comparison of bytes that have scales."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        terms = [
            times(x << _SHIFT, *quantize_multiplier(operand.scale))
            for operand, x in zip(operator.sources, centred(operator, arrays), strict=True)
        ]
        return [compare(*terms)]

    return run


OPERATORS = (
    *(
        Operator(
            kind=kind,
            shapes=_shapes,
            types=(_ORDERED + (_BOOL if kind in ("EQUAL", "NOT_EQUAL") else ()), _BOOL),
            broadcasts=True,
            kernel=by_type(
                **dict.fromkeys(_scaled_types(kind), _scaled(compare)), plain=of_two(compare)
            ),
            host="shapes that broadcast, of one type; integers of 8 and 16 bits with scales below 1",
        )
        for kind, compare in _KINDS.items()
    ),
    *(
        Operator(
            kind=kind,
            shapes=two,
            types=(_BOOL, _BOOL),
            broadcasts=True,
            kernel=of_two(combine),
            host="shapes that broadcast",
        )
        for kind, combine in (("LOGICAL_AND", np.logical_and), ("LOGICAL_OR", np.logical_or))
    ),
    Operator(
        kind="LOGICAL_NOT",
        shapes=same_shape,
        types=(_BOOL, _BOOL),
        kernel=of_each(np.logical_not),
        host="any",
    ),
)
