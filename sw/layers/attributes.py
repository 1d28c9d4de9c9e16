"""Attributes of operators, each checked to be of the kind that a shape rule requires."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from celosia.sw.ir.parts import HostOperator

#: Rows and columns of windows and blocks, elements of margins: at most.
EXTENT = 1 << 20

#: Greatest number of single precision.
_GREATEST = float(np.finfo(np.float32).max)


class Mismatch(ValueError):
    """An operator that is not valid; the message names the requirement."""

    def __init__(self, wanted: str) -> None:
        super().__init__(f"wanted {wanted}")


def require(holds: bool, wanted: str, got: object = None) -> None:
    """Raise Mismatch if a condition does not hold."""
    if not holds:
        raise Mismatch(wanted if got is None else f"{wanted}, got {got}")


class Attributes:
    """The attributes of an operator.

    Every method raises Mismatch if the attribute is missing or of another kind.
    """

    def __init__(self, operator: HostOperator) -> None:
        self._attributes = operator.attributes

    def whole(self, name: str, least: int, most: int) -> int:
        """Return a whole number."""
        return self._number(self._attributes.get(name), name, least, most)

    def _number(self, found: Any, name: str, least: int, most: int) -> int:
        good = type(found) is int and least <= found <= most
        require(good, f"{name} from {least} to {most}", found)
        return found

    def wholes(self, name: str, count: int, least: int, most: int) -> list[int]:
        """Return ``count`` whole numbers."""
        found = self._attributes.get(name)
        good = isinstance(found, list | tuple) and len(found) == count
        require(good, f"{count} numbers as {name}", found)
        assert found is not None
        return [self._number(each, name, least, most) for each in found]

    def pairs(self, name: str, count: int = 2) -> list[list[int]]:
        """Return pairs of numbers from 0 on."""
        found = self._attributes.get(name)
        good = isinstance(found, list | tuple) and len(found) == count
        require(good, f"{count} pairs as {name}", found)
        assert found is not None
        for pair in found:
            good = isinstance(pair, list | tuple) and len(pair) == 2
            good = good and all(type(each) is int and 0 <= each <= EXTENT for each in pair)
            require(good, f"pairs as {name}", found)
        return [list(pair) for pair in found]

    def axes(self, name: str, rank: int) -> list[int]:
        """Return some different dimensions of ``rank``."""
        found = self._attributes.get(name)
        require(isinstance(found, list | tuple), f"dimensions as {name}", found)
        assert found is not None
        axes = [self._number(each, name, 0, rank - 1) for each in found]
        require(len(set(axes)) == len(axes), f"different dimensions as {name}", found)
        return axes

    def name(self, name: str, names: Sequence[str]) -> str:
        """Return one of some names."""
        found = self._attributes.get(name)
        require(found in names, f"{name} to be one of {', '.join(names)}", found)
        assert isinstance(found, str)
        return found

    def flag(self, name: str) -> bool:
        """Return true or false."""
        found = self._attributes.get(name)
        require(type(found) is bool, f"true or false as {name}", found)
        return bool(found)

    def real(self, name: str) -> float:
        """Return a number that single precision holds."""
        found = self._attributes.get(name)
        known = type(found) in (int, float) and abs(found) <= _GREATEST  # pyright: ignore
        require(known, f"a number of single precision as {name}", found)
        return float(found)  # pyright: ignore
