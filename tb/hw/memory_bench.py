"""Memories inside components, for tests that change a bit of a word."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def recorded(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[Any]:
    """Return a list that takes the memories of these modules in the order of their making."""
    made: list[Any] = []

    def recorder(make: Callable[..., Any]) -> Callable[..., Any]:
        def make_one(*arguments: Any, **options: Any) -> Any:
            made.append(make(*arguments, **options))
            return made[-1]

        return make_one

    for module in modules:
        name = "bank_of" if hasattr(module, "bank_of") else "Memory"
        monkeypatch.setattr(module, name, recorder(getattr(module, name)))
    return made


def flip(ctx: Any, memory: Any, word: int, bit: int) -> None:
    """Change one bit of a word."""
    ctx.set(memory.data[word], ctx.get(memory.data[word]) ^ 1 << bit)
