"""Pictures of the page about assembly."""

from canvas import COLOURS, GREY, Canvas

#: Instructions of ``dense.s``: unit, start and end on the drawing, and the words in the box.
INSTRUCTIONS = {
    "LOAD": ("load", 110, 200),
    "LOAD_WEIGHTS": ("load", 210, 340),
    "LOAD_PARAMS": ("load", 350, 512),
    "MATMUL": ("matrix", 375, 475),
    "VECTOR": ("vector", 540, 630),
    "STORE": ("store", 662, 742),
}
UNITS = ("load", "matrix", "vector", "store")
#: Semaphores: number, who posts, who waits.
SEMAPHORES = (
    (0, "LOAD", "MATMUL"),
    (1, "LOAD_WEIGHTS", "MATMUL"),
    (2, "LOAD_PARAMS", "VECTOR"),
    (3, "MATMUL", "VECTOR"),
    (4, "VECTOR", "STORE"),
)


def pictures() -> dict[str, Canvas]:
    """Return the pictures by name."""
    return {"assembly-units": _units()}


def _units() -> Canvas:
    canvas = Canvas(
        760, 330, "The units side by side; semaphores make an instruction wait for another unit."
    )
    for n, unit in enumerate(UNITS):
        canvas.words(16, 58 + 76 * n, unit, anchor="start", bold=True)
        canvas.arrow((90, 54 + 76 * n), (750, 54 + 76 * n), colour=GREY)
    for name, (unit, start, end) in INSTRUCTIONS.items():
        row = UNITS.index(unit)
        corner, size = (start, 36 + 76 * row), (end - start, 36)
        canvas.labelled(corner, size, [name], fill=COLOURS[row])
    for number, giver, taker in SEMAPHORES:
        unit, _, x = INSTRUCTIONS[giver]
        below, start, _ = INSTRUCTIONS[taker]
        y, into = 72 + 76 * UNITS.index(unit), 34 + 76 * UNITS.index(below)
        target = start + 15 + 20 * (number % 2)
        middle = into - 12 - 8 * (number % 2)
        canvas.arrow((x - 12, y), (x - 12, middle), (target, middle), (target, into))
        canvas.words(x - 22, y + 15, str(number), size=12)
    return canvas
