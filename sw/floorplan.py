"""Picture of a placed design."""

import io
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

__all__ = ["Place", "draw"]

#: What is drawn on top of the cells, and how.
_MARKS = {"DSP": "s", "block RAM": "D"}
_COLOURS = "tab20"


class Place(Protocol):
    """Site of a cell, the block it belongs to, and what it counts for."""

    @property
    def column(self) -> int:
        """From the left."""
        ...

    @property
    def row(self) -> int:
        """From the top."""
        ...

    @property
    def room(self) -> str:
        """Room of the core or the board."""
        ...

    @property
    def kind(self) -> str:
        """LUT, FF, DSP or block RAM."""
        ...


def draw(places: Sequence[Place], *, title: str) -> bytes:
    """Return a PNG of the part seen from above, each tile in the colour of the room that has most of it.

    Parameters
    ----------
    places : sequence of Place
        Where the cells are.
    title : str
        Above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tiles: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    marks: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for place in places:
        if place.kind in _MARKS:
            marks[place.kind, place.room].append((place.column, place.row))
        else:
            tiles[place.column, place.row][place.room] += 1
    sizes = Counter(place.room for place in places)
    rooms = [room for room, _ in sizes.most_common()]
    figure = Figure(figsize=(12, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = _colours(len(rooms))
    width = 1 + max((place.column for place in places), default=0)
    height = 1 + max((place.row for place in places), default=0)
    image = np.ones((height, width, 4))
    for (column, row), votes in tiles.items():
        image[row, column] = colours[rooms.index(votes.most_common(1)[0][0])]
    axes.imshow(image, interpolation="nearest")
    for (kind, room), spots in marks.items():
        x, y = zip(*spots, strict=True)
        colour = [colours[rooms.index(room)]]
        axes.scatter(x, y, c=colour, marker=_MARKS[kind], s=18, edgecolors="black", linewidths=0.5)
    for number, room in enumerate(rooms):
        axes.scatter([], [], c=[colours[number]], marker="s", label=f"{room} ({sizes[room]:,})")
    for kind, mark in _MARKS.items():
        axes.scatter([], [], c="white", marker=mark, edgecolors="black", label=kind)
    axes.set_title(title)
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    figure.legend(loc="outside right upper", title="room (cells)")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()


def _colours(count: int) -> np.ndarray:
    """Return ``count`` colours, float64 of shape (count, 4)."""
    from matplotlib import colormaps

    return np.array([colormaps[_COLOURS](number % 20) for number in range(count)])
