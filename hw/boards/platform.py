"""Pins of a board: from amaranth-boards, or from a file in ``constraints/``."""

import importlib
import importlib.resources
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from celosia.hw.arch.extras import install_command
from celosia.hw.boards.board import Board

_FILES = "celosia.constraints"


class BoardError(RuntimeError):
    """Something that a board needs is missing; the message is one line."""


def platform_of(board: Board) -> Any:
    """Return the platform of a board, which hands out pins and makes pads, and builds nothing.

    Raises
    ------
    BoardError
        If the package that knows its pins is not there.
    """
    module, _, name = board.platform.partition(":")
    if module == _FILES:
        known = _from_file(name)
    else:
        try:
            known = getattr(importlib.import_module(module), name)
        except ImportError:
            raise BoardError(
                f"{board.name}: wanted the package amaranth-boards, found none "
                f"({install_command('synth')})"
            ) from None

    class Pins(known):
        def toolchain_prepare(self, fragment: Any, name: str, **settings: Any) -> Any:
            return fragment

    return Pins()


def _from_file(name: str) -> Any:
    """Return the class of platform that a file describes; what it may say stands in the file."""
    from amaranth import vendor

    text = importlib.resources.files(_FILES).joinpath(f"{name}.toml").read_text()
    said = tomllib.loads(text)
    resources = [
        made
        for resource, signals in said["resources"].items()
        for made in _resources(resource, signals, said["attributes"])
    ]
    base = getattr(vendor, f"{said['vendor']}Platform")
    members = {"default_clk": None, "resources": resources, "connectors": []}
    return type(name, (base,), {**said["members"], **members})


def _resources(
    name: str, signals: Mapping[str, str], attributes: Mapping[str, str]
) -> Iterator[Any]:
    from amaranth.build import Attrs, Pins, Resource, Subsignal

    def pins(text: str) -> Any:
        direction, *places = text.split()
        inverted = direction.endswith("-")
        return Pins(" ".join(places), dir=direction.rstrip("-"), invert=inverted)

    attrs = Attrs(**attributes)
    if set(signals) == {"pins"}:
        yield Resource(name, 0, pins(signals["pins"]), attrs)
    elif set(signals) == {"each"}:
        direction, *places = signals["each"].split()
        for number, place in enumerate(places):
            yield Resource(name, number, pins(f"{direction} {place}"), attrs)
    else:
        parts = [Subsignal(signal, pins(text)) for signal, text in signals.items()]
        yield Resource(name, 0, *parts, attrs)
