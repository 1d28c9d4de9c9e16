"""Where the multipliers of the array go: neighbours in the array side by side on the part."""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from celosia.hw.flow.parts import Part

__all__ = ["array_places", "fix"]

#: The multiplier of a pair of columns, by its row and its first column.
_MULTIPLIER = re.compile(r".*\.array\.row_(\d+)\.cell_(\d+)\.product\.multiplier$")


def array_places(names: Iterable[str], part: Part) -> dict[str, str]:
    """Return the sites of the multipliers of an array of pairs.

    Two pairs of columns share a run of blocks, two rows of each a block, the second pair one block
    further on: sums go on to a neighbour, activations to the next block, then to the run above or
    below. It is also what a block can take: its four multipliers know four enables between them,
    and the cells that meet in one switch weights in the same two cycles, by two registers that
    synthesis makes one.

    Parameters
    ----------
    names : iterable of str
        Of all cells of the netlist.
    part : Part
        Where they go.

    Returns
    -------
    dict of str to str
        Site by cell; empty where the part has too few blocks, or none that are known.
    """
    found = {}
    for name in names:
        if match := _MULTIPLIER.match(name):
            found[name] = int(match[1]), int(match[2]) // 2
    if not found or not part.multiplier_blocks:
        return {}
    rows = 1 + max(row for row, _ in found.values())
    pairs = 1 + max(pair for _, pair in found.values())
    runs = _runs(part, -(-rows // 2) + 1)
    if -(-pairs // 2) > len(runs):
        return {}
    places = {}
    for name, (row, pair) in found.items():
        couple, second = divmod(pair, 2)
        places[name] = runs[couple][row // 2 + second][2 * second + row % 2]
    return places


def _runs(part: Part, length: int) -> list[list[list[str]]]:
    """Return runs of blocks: those that a row of blocks has room for, then what is left of the rows.

    That is one line, which turns at the end of each row.
    """
    runs, rest = [], []
    for n, (y, starts) in enumerate(part.multiplier_blocks):
        line = [[f"X{x + dx}/Y{y}/MULT18_{dx}" for dx in (0, 1, 4, 5)] for x in starts]
        whole = len(line) // length * length
        runs += [line[first : first + length] for first in range(0, whole, length)]
        left = line[whole:]
        rest += reversed(left) if n % 2 else left
    return runs + [rest[n : n + length] for n in range(0, len(rest) - length + 1, length)]


def fix(netlist: Path, top: str, part: Part) -> tuple[Path, tuple[str, ...]]:
    """Return a netlist whose multipliers have their sites, and the router its settings.

    It is beside the one given, or that one where there is nothing to say; with options of nextpnr
    that go with it.
    """
    settings = part.settings
    # Kept apart by what made it: this file, and the settings.
    made_by = Path(__file__).read_bytes() + repr((settings, part.multiplier_blocks)).encode()
    fixed = netlist.with_suffix(f".{hashlib.sha256(made_by).hexdigest()[:8]}.json")
    if not settings and not part.multiplier_blocks:
        return netlist, ()
    design = json.loads(netlist.read_text())
    cells = design["modules"][top]["cells"]
    places = array_places((n for n in cells if cells[n]["type"] == "MULT18X18D"), part)
    options = part.family.fixed if places else ()
    if not fixed.exists():
        for name, site in places.items():
            cells[name]["attributes"]["BEL"] = site
        design["modules"][top].setdefault("settings", {}).update(settings)
        partial = netlist.with_suffix(".partial")
        partial.write_text(json.dumps(design))
        partial.rename(fixed)
    return fixed, options
