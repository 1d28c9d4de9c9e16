"""Dataclasses from the contents of a JSON file; every field has its declared type."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_args, get_type_hints

#: Whole numbers lie below this, positive or negative.
_MOST = 1 << 63

_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is(found: object, kind: type) -> bool:
    if kind is int:
        return type(found) is int and -_MOST < found < _MOST
    if kind is float:
        return type(found) in (int, float) and abs(found) < 1e300  # pyright: ignore
    if kind is str:
        return type(found) is str and found.isprintable()
    return type(found) is kind


def value(found: Any, kind: type, where: str) -> Any:
    """Return a number or text of the given type; a whole number may stand for any number.

    Raises ValueError if it is of another type, not finite, or a text that cannot be shown.
    """
    if not _is(found, kind) or (kind is float and not math.isfinite(found)):
        raise ValueError(f"{where}: wanted {_NAMES[kind]}, got {_shown(found)}")
    return float(found) if kind is float else found


def require_texts(found: Any, where: str) -> None:
    """Refuse contents of a file with a text that ``value`` would refuse.

    Raises ValueError with the text.
    """
    if isinstance(found, str):
        value(found, str, where)
    elif isinstance(found, Mapping):
        for key, each in found.items():
            require_texts(each, f"{where} {key}")
    elif isinstance(found, list | tuple):
        for each in found:
            require_texts(each, where)


def listed(found: Any, where: str) -> list[Any]:
    """Return a list; raise ValueError if it is none."""
    if not isinstance(found, list):
        raise ValueError(f"{where}: wanted a list, got {_shown(found)}")
    return found


@cache
def _declared(cls: type) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field, and True if it may be left out."""
    hints = get_type_hints(cls)
    return {field.name: (hints[field.name], field.default is not MISSING) for field in fields(cls)}


def record(cls: type, entry: Any, where: str, given: Mapping[str, Any] | None = None) -> Any:
    """Return a dataclass whose fields are numbers, texts, or tuples of them.

    - ``entry``: contents of the file: a value for each field, lists for tuples.
    - ``where``: name in messages.
    - ``given``: values of fields of other types, not checked here.

    Raises ValueError if ``entry`` is no mapping, or a field is missing, unknown, or of another
    type.
    """
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: wanted fields, got {_shown(entry)}")
    declared, values = _declared(cls), dict(given or {})
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


def _typed(found: Any, kind: Any, where: str) -> Any:
    if kind in _NAMES:
        return value(found, kind, where)
    # tuple[int, ...] has two arguments.
    element: Sequence[type] = get_args(kind)
    return tuple(value(each, element[0], where) for each in listed(found, where))
