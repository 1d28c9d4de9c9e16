"""Memories inside components, for tests that change a bit of a word."""

from types import ModuleType
from typing import Any

import pytest
from amaranth.lib import memory as library


def recorded(monkeypatch: pytest.MonkeyPatch, *rooms: ModuleType) -> list[Any]:
    """Return a list that takes the memories of these modules in the order in which they are made."""
    made: list[Any] = []

    class Recorded(library.Memory):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    for room in rooms:
        monkeypatch.setattr(room, "Memory", Recorded)
    return made


def flip(ctx: Any, memory: Any, word: int, bit: int) -> None:
    """Change one bit of a word."""
    ctx.set(memory.data[word], ctx.get(memory.data[word]) ^ 1 << bit)
