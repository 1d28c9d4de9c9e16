"""Python source lines of signals."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import celosia.hw

_ROOT = Path(celosia.hw.__file__).parent.parent
#: Files whose lines stand for signals declared elsewhere: the line of the module is more useful.
HELPERS = ("hw/lib/component.py", "hw/lib/fanout.py")


class Source(NamedTuple):
    """Declaration of a signal, as ``file:line``, and whether its module assigns it."""

    place: str
    assigned: bool


@cache
def shortened(place: str) -> str:
    """Return ``file:line`` with the file as seen from the top of its package."""
    path = Path(place)
    if path.is_relative_to(_ROOT / "hw"):
        return str(path.relative_to(_ROOT))
    return "/".join(path.parts[-3:])
