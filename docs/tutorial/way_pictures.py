"""Pictures of the page about a pixel and a weight; the numbers come from the program."""

from collections.abc import Callable

from canvas import ACCENT, COLOURS, GREY, Canvas
from pixel_and_weight import CHANNEL, CONFIG, PIXEL, WEIGHT, Story

#: Blocks of the core: corner, size and name.
BLOCKS = {
    "file": ((20, 30), (110, 40), "file, compiler"),
    "memory": ((20, 110), (110, 150), "memory, external"),
    "load": ((170, 110), (80, 44), "load"),
    "store": ((170, 216), (80, 44), "store"),
    "weights": ((300, 50), (130, 44), "weight buffer"),
    "unified": ((300, 163), (130, 44), "unified buffer"),
    "array": ((480, 50), (110, 60), "array"),
    "accumulators": ((480, 140), (110, 40), "accumulators"),
    "vector": ((480, 216), (110, 44), "vector unit"),
}
#: Wires between blocks, by their ends.
WIRES = {
    ("file", "memory"): ((75, 70), (75, 108)),
    ("memory", "load"): ((130, 132), (168, 132)),
    ("load", "weights"): ((230, 110), (230, 72), (298, 72)),
    ("load", "unified"): ((250, 132), (275, 132), (275, 180), (298, 180)),
    ("weights", "array"): ((430, 72), (478, 72)),
    ("unified", "array"): ((430, 172), (455, 172), (455, 95), (478, 95)),
    ("array", "accumulators"): ((535, 110), (535, 138)),
    ("accumulators", "vector"): ((535, 180), (535, 214)),
    ("vector", "unified"): ((480, 238), (400, 238), (400, 209)),
    ("unified", "store"): ((330, 207), (330, 238), (252, 238)),
    ("store", "memory"): ((170, 238), (132, 238)),
}
RIGHT, TOP = 630, 60
#: Fill of what the picture is about.
HERE = "#f0a070"
Shade = Callable[[int, int], str]
Label = Callable[[int, int], str]


def pictures() -> dict[str, Canvas]:
    """Return the pictures by name."""
    story = Story()
    return _of_pixel(story) | _of_weight(story)


def _core(text: str, *way: str) -> Canvas:
    """Return the blocks, with those of a way and the wires between them in colour."""
    canvas = Canvas(960, 300, text)
    steps = list(zip(way, way[1:], strict=False))
    for name, (corner, size, words) in BLOCKS.items():
        fill = COLOURS[1] if name in way else "#f4f4f4"
        canvas.labelled(corner, size, words.split(", "), fill=fill)
    for ends, points in WIRES.items():
        ours = ends in steps
        canvas.arrow(*points, colour=ACCENT if ours else GREY, width=2 if ours else 1)
    canvas.words(RIGHT, 30, text.partition(":")[0], size=15, bold=True, anchor="start")
    return canvas


def _grid(
    canvas: Canvas,
    extent: tuple[int, int],
    cell: tuple[int, int],
    shade: Shade,
    label: Label = lambda row, column: "",
) -> None:
    """Draw ``extent`` rows and columns of cells of some width and height."""
    width, height = cell
    for row in range(extent[0]):
        for column in range(extent[1]):
            x, y = RIGHT + column * width, TOP + row * height
            canvas.box(x, y, width, height, fill=shade(row, column), line="#c8c8c8")
            if text := label(row, column):
                canvas.words(x + width // 2, y + height // 2 + 4, text, size=11)


def _notes(canvas: Canvas, top: int, *lines: str) -> None:
    for n, line in enumerate(lines):
        canvas.words(RIGHT, top + 18 * n, line, size=12, anchor="start")


def _one(row: int, column: int, others: Shade = lambda row, column: "#ffffff") -> Shade:
    """Return the shades of a grid with one cell in colour."""
    return lambda r, c: HERE if (r, c) == (row, column) else others(r, c)


def _cells(canvas: Canvas, tap: int, taps: int, channels: int) -> None:
    """Draw the array, with the rows and columns that the layer uses."""
    _grid(
        canvas, (CONFIG.rows, CONFIG.columns), (14, 12), _one(tap, CHANNEL, _used(taps, channels))
    )


def _used(rows: int, columns: int) -> Shade:
    return lambda r, c: COLOURS[0] if r < rows and c < columns else "#ffffff"


def _of_pixel(story: Story) -> dict[str, Canvas]:
    load, product, result, tap = story.load, story.product, story.result, story.tap
    drawn = {}
    drawn["pixel-1"] = canvas = _core("Step 1: the pixel lies in external memory.", "memory")

    def grey(row: int, column: int) -> str:
        level = 255 - (int(story.image[row, column]) + 128)
        return f"#{level:02x}{level:02x}{level:02x}"

    _grid(canvas, (28, 28), (7, 7), _one(*PIXEL, grey))
    where = f"row {PIXEL[0]}, column {PIXEL[1]}: int8 {story.image[PIXEL]}"
    _notes(canvas, 276, where + f", at 0x{load.external:x}")

    drawn["pixel-2"] = canvas = _core(
        "Step 2: LOAD copies it into the unified buffer.", "memory", "load", "unified"
    )
    bank, row = load.unified % CONFIG.rows, load.unified // CONFIG.rows
    _grid(canvas, (5, CONFIG.rows), (18, 18), _one(2, bank))
    _notes(canvas, 172, f"16 banks; rows {row - 2} to {row + 2}", f"bank {bank}, row {row}")
    _notes(canvas, 208, f"byte {load.unified} = {row} * 16 + {bank}")

    drawn["pixel-3"] = canvas = _core(
        "Step 3: MATMUL sends it through a row of the array.", "unified", "array"
    )
    _cells(canvas, tap, *story.extent)
    value, weight = int(product.taps[tap]), int(product.weights[tap])
    _notes(canvas, 276, f"row {tap}, column {CHANNEL}: {value} * {weight} = {value * weight}")

    drawn["pixel-4"] = canvas = _core(
        "Step 4: the sum of the column goes into the accumulators.", "array", "accumulators"
    )
    _grid(canvas, (3, CONFIG.columns), (18, 18), _one(1, CHANNEL))
    _notes(canvas, 140, f"row {product.row}, column {CHANNEL}", f"sum {product.sum}")

    drawn["pixel-5"] = canvas = _core(
        "Step 5: VECTOR makes one int8 of four sums.", "accumulators", "vector", "unified"
    )
    greatest = result.window.index(max(result.window))
    _grid(
        canvas,
        (2, 2),
        (80, 34),
        lambda r, c: COLOURS[1] if 2 * r + c == greatest else "#ffffff",
        lambda r, c: str(result.window[2 * r + c]),
    )
    bias, *_ = result.parameters
    _notes(canvas, 156, f"greatest {max(result.window)}, plus bias {bias}", "scaled and rounded")
    _notes(canvas, 192, f"int8 {result.value}, at byte {result.address}")

    drawn["pixel-6"] = canvas = _core(
        "Step 6: STORE copies the scores to external memory.", "unified", "store", "memory"
    )
    scores = story.scores
    best = int(scores.argmax())
    _grid(canvas, (1, 10), (31, 30), _bar(best), lambda r, c: str(scores[c]))
    _notes(canvas, 112, f"from 0x{story.store.external:x}; the greatest is that of {best}")
    return drawn


def _bar(best: int) -> Shade:
    return lambda row, column: COLOURS[1] if column == best else "#ffffff"


def _of_weight(story: Story) -> dict[str, Canvas]:
    tap, weight = story.tap, int(story.filters[CHANNEL][WEIGHT])
    address = story.program.segments[0].address + tap * CONFIG.tile_row_bytes + CHANNEL
    drawn = {}
    drawn["weight-1"] = canvas = _core("Step 1: the weight is one of a filter.", "file")
    numbers = _one(*WEIGHT)
    _grid(canvas, (3, 3), (48, 30), numbers, lambda r, c: str(story.filters[CHANNEL][r, c]))
    _notes(canvas, 172, f"filter {CHANNEL}, tap {tap}: {weight}")

    drawn["weight-2"] = canvas = _core(
        "Step 2: the compiler puts it into a tile.", "file", "memory"
    )
    _cells(canvas, tap, *story.extent)
    _notes(canvas, 276, f"row {tap}, column {CHANNEL} of tile 0, at 0x{address:x}")

    drawn["weight-3"] = canvas = _core(
        "Step 3: LOAD_WEIGHTS copies the tile.", "memory", "load", "weights"
    )
    first = story.weight_load
    _grid(canvas, (1, 8), (38, 30), _bar(first.tile), lambda r, c: f"tile {c}")
    _notes(canvas, 112, f"the first of {CONFIG.weight_tiles} tiles of 16 x 16 bytes")

    drawn["weight-4"] = canvas = _core(
        "Step 4: the cell holds it while pixels pass.", "weights", "array"
    )
    _cells(canvas, tap, *story.extent)
    _notes(canvas, 276, f"row {tap}, column {CHANNEL}: {weight}, for {story.uses} pixels")
    return drawn
