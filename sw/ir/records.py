"""Dataclasses from the contents of a JSON file; every field has its declared type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_args, get_type_hints

#: Whole numbers lie below this, positive or negative.
_MOST = 1 << 63

_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _shown(entry: object) -> str:
    text = repr(entry)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is(entry: object, kind: type) -> bool:
    if kind is int:
        return type(entry) is int and -_MOST < entry < _MOST
    if kind is float:
        return type(entry) in (int, float) and abs(entry) < 1e300  # pyright: ignore
    if kind is str:
        return type(entry) is str and entry.isprintable()
    return type(entry) is kind


def value(entry: Any, kind: type, where: str) -> Any:
    """Return a number or text of the given type; a whole number may stand for any number.

    Raises ValueError if it is of another type, not finite, or a text that cannot be shown.
    """
    if not _is(entry, kind) or (kind is float and not math.isfinite(entry)):
        raise ValueError(f"{where}: wanted {_NAMES[kind]}, got {_shown(entry)}")
    return float(entry) if kind is float else entry


def require_texts(entry: Any, where: str) -> None:
    """Refuse contents of a file with a text that ``value`` would refuse.

    Raises ValueError with the text.
    """
    if isinstance(entry, str):
        value(entry, str, where)
    elif isinstance(entry, Mapping):
        for key, item in entry.items():
            require_texts(item, f"{where} {key}")
    elif isinstance(entry, list | tuple):
        for item in entry:
            require_texts(item, where)


def listed(entry: Any, where: str) -> list[Any]:
    """Return a list; raise ValueError if it is none."""
    if not isinstance(entry, list):
        raise ValueError(f"{where}: wanted a list, got {_shown(entry)}")
    return entry


@cache
def _declared(cls: type) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field, and True if it may be left out."""
    hints = get_type_hints(cls)
    return {field.name: (hints[field.name], field.default is not MISSING) for field in fields(cls)}


def record(cls: type, entry: Any, where: str, checked: Mapping[str, Any] | None = None) -> Any:
    """Return a dataclass whose fields are numbers, texts, or tuples of them.

    - ``entry``: contents of the file: a value for each field, lists for tuples.
    - ``where``: name in messages.
    - ``checked``: values of fields of other types, not checked here.

    Raises ValueError if ``entry`` is no mapping, or a field is missing, unknown, or of another
    type.
    """
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: wanted fields, got {_shown(entry)}")
    declared, values = _declared(cls), dict(checked or {})
    for name in entry:
        if name not in declared:
            raise ValueError(f"{where}: no such field as {_shown(name)}")
    for name, (kind, optional) in declared.items():
        if name in values:
            continue
        if name not in entry:
            if not optional:
                raise ValueError(f"{where}: wanted {name}, got none")
            continue
        values[name] = _typed(entry[name], kind, f"{where} {name}")
    return cls(**values)


def _typed(entry: Any, kind: Any, where: str) -> Any:
    if kind in _NAMES:
        return value(entry, kind, where)
    # tuple[int, ...] has two arguments.
    element: Sequence[type] = get_args(kind)
    return tuple(value(item, element[0], where) for item in listed(entry, where))
