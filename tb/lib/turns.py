"""Grids of test parameters of which short tests take a diagonal."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def in_turn(*axes: Sequence[Any]) -> list[Any]:
    """Return the parameters of all combinations; most of them are marked slow.

    As many as the longest axis has values are not: of each axis they take one value after the
    other, so that each value is there.
    """
    count = max(map(len, axes))
    short = {tuple(n % len(axis) for axis in axes) for n in range(count)}
    combinations = []
    for places in product(*(range(len(axis)) for axis in axes)):
        values = [axis[place] for axis, place in zip(axes, places, strict=True)]
        marks = [] if places in short else [pytest.mark.slow]
        combinations.append(pytest.param(*values, marks=marks))
    return combinations
