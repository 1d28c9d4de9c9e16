"""Picture of a placed design."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from celosia.sw.files import png_bytes

#: Markers of kinds drawn on top of the cells.
_MARKS = {"DSP": "s", "block RAM": "D"}
_COLOURS = "tab20"


class Site(Protocol):
    """Site, block and kind of a cell."""

    @property
    def column(self) -> int:
        """From the left."""
        ...

    @property
    def row(self) -> int:
        """From the top."""
        ...

    @property
    def block(self) -> str:
        """Block of the core or the board."""
        ...

    @property
    def kind(self) -> str:
        """LUT, FF, DSP or block RAM."""
        ...


def draw(cells: Sequence[Site], *, title: str) -> bytes:
    """Return a PNG of the device from above; each tile has the colour of its largest block.

    - ``cells``: the cells with their sites.
    - ``title``: above the picture.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    tiles: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    marks: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for cell in cells:
        if cell.kind in _MARKS:
            marks[cell.kind, cell.block].append((cell.column, cell.row))
        else:
            tiles[cell.column, cell.row][cell.block] += 1
    sizes = Counter(cell.block for cell in cells)
    blocks = [block for block, _ in sizes.most_common()]
    figure = Figure(figsize=(12, 6), layout="constrained")
    axes = figure.add_subplot()
    colours = [colormaps[_COLOURS](number % 20) for number in range(len(blocks))]
    width = 1 + max((cell.column for cell in cells), default=0)
    height = 1 + max((cell.row for cell in cells), default=0)
    image = np.ones((height, width, 4))
    for (column, row), votes in tiles.items():
        image[row, column] = colours[blocks.index(votes.most_common(1)[0][0])]
    axes.imshow(image, interpolation="nearest")
    for (kind, block), spots in marks.items():
        x, y = zip(*spots, strict=True)
        colour = [colours[blocks.index(block)]]
        axes.scatter(x, y, c=colour, marker=_MARKS[kind], s=18, edgecolors="black", linewidths=0.5)
    for number, block in enumerate(blocks):
        axes.scatter([], [], c=[colours[number]], marker="s", label=f"{block} ({sizes[block]:,})")
    for kind, mark in _MARKS.items():
        axes.scatter([], [], c="white", marker=mark, edgecolors="black", label=kind)
    axes.set_title(title)
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    figure.legend(loc="outside right upper", title="block (cells)")
    return png_bytes(figure, dpi=120)
