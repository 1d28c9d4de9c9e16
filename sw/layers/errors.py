"""Errors with which a pass refuses a model."""

from collections.abc import Sequence
from typing import Self


class CompileError(ValueError):
    """A model that cannot run on the core; its text is one line made of the fields.

    - ``reason``: the limit: wanted and got.
    - ``layer``: the operator, layer or tensor that the core cannot run; a pass that does not know
      it omits it, and ``at`` adds it.
    - ``place``: number of the operator in the model, if it is one of them.
    - ``hint``: remedy.
    """

    def __init__(
        self, reason: str, *, layer: str = "", place: int | None = None, hint: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.layer = layer
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.layer, self.reason, self.hint)))

    def at(self, layer: str, place: int | None = None) -> Self:
        """Add the layer and the operator's number if the error has none; return the error."""
        self.layer = self.layer or layer
        self.place = place if self.place is None else self.place
        return self


class LengthError(CompileError):
    """A program of more instructions than the limit.

    - ``count``: its instructions, at least.
    - ``limit``: the limit.
    """

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(
            f"wanted at most {limit} instructions, got {count} or more", layer="network"
        )
        self.count = count
        self.limit = limit


class ChannelError(CompileError):
    """A layer of which the core cannot round some channels like the kernel: ``channels``."""

    def __init__(self, reason: str, channels: Sequence[int]) -> None:
        super().__init__(reason)
        self.channels = channels


class UndefinedError(CompileError):
    """An operator for which the reference kernel has no defined results."""


def require_layer(holds: bool, layer: str, requirement: str, got: object) -> None:
    """Raise CompileError, of one line, if a condition does not hold."""
    if not holds:
        raise CompileError(f"wanted {requirement}, got {got}", layer=layer)
