"""Pictures of the page about the systolic array; the numbers come from the simulation."""

import tempfile
from pathlib import Path

import numpy as np
from canvas import COLOURS, GREY, INK, Canvas
from systolic_array import Schedule, cells, matrices, simulate

SIZE = 4
CELL_WIDTH, CELL_HEIGHT, PITCH_X, PITCH_Y = 92, 78, 112, 104
LEFT, TOP = 250, 70

#: Cycles that are drawn, by file; each with the text alternative.
PHASES = {
    "array-1-weights": (5, "the weights of three rows have reached column 0, none is active"),
    "array-2-switch": (8, "the switch has reached two cells of row 0 and one of row 1"),
    "array-3-pass": (11, "four vectors are in the array at once, along diagonals"),
    "array-4-results": (
        15,
        "sums leave the last row; column 3 is three cycles later than column 0",
    ),
}


def pictures() -> dict[str, Canvas]:
    """Return the pictures by name."""
    x, w = matrices(SIZE)
    with tempfile.TemporaryDirectory() as folder:
        waveform = Path(folder) / "array.vcd"
        simulate(x, w, waveform)
        contents = cells(waveform, SIZE)
    drawn = {name: _array(cycle, text, contents, x) for name, (cycle, text) in PHASES.items()}
    return {"array-cell": _cell(), **drawn}


def _vector(cycle: int) -> str:
    """Return the colour of the vector that column 0 of row 0 multiplies in a cycle."""
    vector = cycle - Schedule(SIZE).first - 1
    return COLOURS[vector] if 0 <= vector < SIZE else "#ffffff"


def _array(cycle: int, text: str, contents: np.ndarray, x: np.ndarray) -> Canvas:
    """Return the array in one cycle; a colour is a vector of activations."""
    canvas = Canvas(
        LEFT + SIZE * PITCH_X + 10, TOP + SIZE * PITCH_Y + 40, f"Cycle {cycle}: {text}."
    )
    canvas.words(20, 30, f"cycle {cycle}", size=18, bold=True, anchor="start")
    canvas.words(20, 52, "vector", anchor="start", size=12)
    for vector in range(SIZE):
        canvas.labelled((64 + 24 * vector, 39), (20, 18), [str(vector)], fill=COLOURS[vector])
    for column in range(SIZE):
        canvas.words(LEFT + column * PITCH_X + CELL_WIDTH // 2, TOP - 10, f"column {column}")
    for row in range(SIZE):
        _skew(canvas, cycle, row, x)
        for column in range(SIZE):
            _one_cell(canvas, cycle, (row, column), contents[cycle, row, column])
    return canvas


def _skew(canvas: Canvas, cycle: int, row: int, x: np.ndarray) -> None:
    """Draw the registers that delay the activations of a row."""
    y = TOP + row * PITCH_Y + CELL_HEIGHT // 2
    canvas.words(18, y + 5, f"row {row}", anchor="start")
    canvas.arrow((64, y), (LEFT - 2, y), colour=GREY)
    for register in range(1, row + 1):
        vector = cycle - Schedule(SIZE).first - register
        there = 0 <= vector < SIZE
        fill = COLOURS[vector] if there else "#ffffff"
        value = str(x[vector, row]) if there else ""
        corner = (LEFT - 40 * (row - register + 1) - 14, y - 14)
        canvas.labelled(corner, (30, 28), [value], fill=fill)


def _one_cell(canvas: Canvas, cycle: int, where: tuple[int, int], contents: np.ndarray) -> None:
    row, column = where
    left, top = LEFT + column * PITCH_X, TOP + row * PITCH_Y
    following, weight, activation, product, total = map(int, contents)
    age = cycle - row - column
    canvas.box(left, top, CELL_WIDTH, CELL_HEIGHT)
    canvas.words(
        left + 6, top + 17, f"next {following or ''}", colour=GREY, size=11, anchor="start"
    )
    canvas.words(left + CELL_WIDTH - 6, top + 17, f"w {weight or ''}", bold=True, anchor="end")
    for line, (name, value) in enumerate((("a", activation), ("p", product), ("sum", total))):
        fill = _vector(age - line)
        y = top + 24 + 18 * line
        canvas.box(left + 4, y, CELL_WIDTH - 8, 16, fill=fill, line="none")
        shown = str(value) if fill != "#ffffff" else ""
        canvas.words(left + 10, y + 12, name, size=11, colour=GREY, anchor="start")
        canvas.words(left + CELL_WIDTH - 10, y + 12, shown, size=12, anchor="end")
    below = top + CELL_HEIGHT
    canvas.arrow((left + CELL_WIDTH // 2, below), (left + CELL_WIDTH // 2, top + PITCH_Y - 2))
    if column < SIZE - 1:
        y = top + CELL_HEIGHT // 2
        canvas.arrow((left + CELL_WIDTH, y), (left + PITCH_X - 2, y))


def _cell() -> Canvas:
    """Return the registers of one cell."""
    canvas = Canvas(
        640,
        300,
        "One cell: the next weight and the active weight, the activation, "
        "the product and the sum are registers.",
    )
    canvas.labelled((60, 30), (120, 44), ["next weight", "shadow"], fill=COLOURS[7])
    canvas.labelled((60, 120), (120, 44), ["active weight w", "b_held"], fill=COLOURS[1])
    canvas.labelled((60, 210), (120, 44), ["activation a", "a_held"], fill=COLOURS[0])
    canvas.labelled((270, 165), (110, 44), ["product p", "w × a"], fill=COLOURS[2])
    canvas.labelled((470, 165), (110, 44), ["sum", "sums_out"], fill=COLOURS[3])
    canvas.arrow((120, 74), (120, 118))
    canvas.words(130, 100, "switch", size=12, anchor="start", colour=GREY)
    canvas.arrow((180, 142), (225, 142), (225, 180), (268, 180))
    canvas.arrow((180, 232), (225, 232), (225, 195), (268, 195))
    canvas.arrow((380, 187), (468, 187))
    canvas.words(424, 180, "+", size=18, bold=True)
    canvas.arrow((525, 30), (525, 163))
    canvas.words(515, 45, "sum of the row above", anchor="end", size=12)
    canvas.arrow((525, 209), (525, 285))
    canvas.words(515, 280, "to the row below", anchor="end", size=12)
    canvas.arrow((5, 52), (58, 52))
    canvas.words(8, 24, "weight bus", anchor="start", size=12)
    canvas.arrow((5, 232), (58, 232))
    canvas.words(8, 280, "from the west", anchor="start", size=12)
    canvas.arrow((120, 254), (120, 270), (400, 270), colour=INK)
    canvas.words(300, 290, "to the east, one cycle later", size=12)
    return canvas
