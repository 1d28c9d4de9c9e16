"""Places of the multipliers of arrays and of the memories around them: neighbours of an array lie
side by side on the part."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.flow import analytic
from celosia.hw.flow.netlist import column_of
from celosia.hw.flow.parts import FpgaPart
from celosia.hw.flow.tools import Progress

#: End of the path of the multiplier of a cell, and how row, and cell at its first column, begin.
_MULTIPLIER, _ROW, _CELL = (".product.multiplier", "row_", "cell_")


def array_places(names: Iterable[str], part: FpgaPart) -> dict[str, str]:
    """Return the sites of the multipliers of an array, or of several, one after the other.

    Two cells of a row share a run of blocks, two rows of each a block, the second cell one block
    further on: sums go on to a neighbour, activations to the next block, then to the run above or
    below. It is also what a block can take: its four multipliers know four enables between them,
    and the cells that meet in one switch weights in two cycles, by two registers that synthesis
    makes one, or in three where a cell has one column.

    Parameters
    ----------
    names : iterable of str
        Of all cells of the netlist.
    part : FpgaPart
        Where they go.

    Returns
    -------
    dict of str to str
        Site by cell; empty where the part has too few blocks, or none that are known.
    """
    cells = {}
    for name in names:
        array, *inside = name.removesuffix(_MULTIPLIER).rsplit(".", 2)
        if name.endswith(_MULTIPLIER) and array.endswith(".array") and len(inside) == 2:
            row, column = inside
            cells[name] = array, int(row.removeprefix(_ROW)), int(column.removeprefix(_CELL))
    if not cells or not part.multiplier_blocks:
        return {}
    rows = 1 + max(row for _, row, _ in cells.values())
    runs = _runs(part, -(-rows // 2) + 1)
    # Two columns of an array take a run.
    couples: dict[tuple[str, int], tuple[int, int]] = {}
    taken = 0
    for array in sorted({array for array, _, _ in cells.values()}):
        columns = sorted({column for other, _, column in cells.values() if other == array})
        for n, column in enumerate(columns):
            couples[array, column] = taken + n // 2, n % 2
        taken += -(-len(columns) // 2)
    if taken > len(runs):
        return {}
    places = {}
    for name, (array, row, column) in cells.items():
        couple, second = couples[array, column]
        places[name] = runs[couple][row // 2 + second][2 * second + row % 2]
    return places


def _runs(part: FpgaPart, length: int) -> list[list[list[str]]]:
    """Return runs of blocks: as many as a row of blocks holds, then what is left of the rows.

    That is one line, which turns at the end of each row.
    """
    runs, remainder = [], []
    for n, line in enumerate(_multipliers(part)):
        full = len(line) // length * length
        runs += [line[first : first + length] for first in range(0, full, length)]
        left = line[full:]
        remainder += reversed(left) if n % 2 else left
    return runs + [remainder[n : n + length] for n in range(0, len(remainder) - length + 1, length)]


def _multipliers(part: FpgaPart) -> list[list[list[str]]]:
    """Return the sites of multipliers: rows of blocks of four."""
    return [
        [[f"X{x + dx}/Y{y}/MULT18_{dx}" for dx in (0, 1, 4, 5)] for x in starts]
        for y, starts in part.multiplier_blocks
    ]


def _memories(part: FpgaPart) -> list[str]:
    """Return the sites of block memories."""
    rows = part.memory_blocks
    return [f"X{x + 2 * n}/Y{y}/EBR{n}" for y, starts in rows for x in starts for n in range(4)]


def _at(site: str) -> tuple[int, int]:
    """Return column and row of a site."""
    x, y, _ = site.split("/")
    return int(x[1:]), int(y[1:])


def other_places(
    cells: Mapping[str, Mapping[str, Any]], places: Mapping[str, str], part: FpgaPart
) -> dict[str, str]:
    """Return sites of the block memories, and of the multipliers that are not among ``places``.

    Parameters
    ----------
    cells : dict of str to dict
        The netlist, as Yosys writes it.
    places : dict of str to str
        Site by cell of those that have one.
    part : FpgaPart
        Where they go.

    Returns
    -------
    dict of str to str
        Site by cell; empty where the part has too few, or none that are known.
    """
    taken = set(places.values())
    multipliers = (site for line in _multipliers(part) for block in line for site in block)
    names = {
        "MULT18X18D": [site for site in multipliers if site not in taken],
        "DP16KD": _memories(part),
    }
    kinds = Counter(cell["type"] for name, cell in cells.items() if name not in places)
    if not part.memory_blocks or any(kinds[kind] > len(names[kind]) for kind in names):
        return {}
    # A tile has as many registers as LUTs, and half of the one goes with the other.
    shares = {"LUT": 1.0, "FF": 0.5}
    areas = {}
    for kind in kinds:
        column, count = column_of(part.family, kind) or ("", 0)
        areas[kind] = shares.get(column, 0.0) * count
    positions = analytic.site_places(
        analytic.Cells.of(cells, areas),
        {
            kind: analytic.Sites(sites, np.array([_at(site) for site in sites], float))
            for kind, sites in names.items()
        },
        {n: _at(places[name]) for n, name in enumerate(cells) if name in places},
        np.array(part.size, float),
    )
    order = list(cells)
    return {order[cell]: site for cell, site in positions.items()}


def fix(netlist: Path, top: str, part: FpgaPart, report: Progress = lambda line: None) -> Path:
    """Return a netlist whose multipliers and memories have sites, and settings of the router.

    It is beside the one given, or that one where there is nothing to say.
    """
    settings = part.settings
    # Kept apart by what made it: the files that say where, and what they know of the part.
    makers = b"".join(Path(file).read_bytes() for file in (__file__, analytic.__file__))
    known = repr((settings, part.multiplier_blocks, part.memory_blocks, part.size)).encode()
    fixed = netlist.with_suffix(f".{hashlib.sha256(makers + known).hexdigest()[:8]}.json")
    if not settings and not part.multiplier_blocks:
        return netlist
    if not fixed.exists():
        design = json.loads(netlist.read_text())
        cells = design["modules"][top]["cells"]
        places = array_places((n for n in cells if cells[n]["type"] == "MULT18X18D"), part)
        if places:
            report("looking for sites of block memories")
            places |= other_places(cells, places, part)
        for name, site in places.items():
            cells[name]["attributes"]["BEL"] = site
        design["modules"][top].setdefault("settings", {}).update(settings)
        partial = netlist.with_suffix(".partial")
        partial.write_text(json.dumps(design))
        partial.rename(fixed)
    return fixed
