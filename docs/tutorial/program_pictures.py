"""Pictures of the pages about programs: units and semaphores, the core in a design."""

from canvas import ACCENT, COLOURS, GREY, Canvas

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
    return {"assembly-units": _units(), "soc": _soc()}


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


def _soc() -> Canvas:
    canvas = Canvas(
        760,
        260,
        "A host writes the core's registers; host and core share the memory; the core interrupts.",
    )
    canvas.labelled((20, 90), (130, 80), ["host", "AxiLiteMaster"], fill=COLOURS[0])
    canvas.box(240, 20, 260, 220, fill="#fafafa")
    canvas.words(252, 40, "soc.v", anchor="start", bold=True)
    canvas.labelled((270, 60), (200, 130), ["celosia", "", "registers at 0x4000_0000"])
    canvas.labelled((590, 60), (150, 130), ["memory", "AxiRam", "", "program", "input, output"])
    canvas.arrow((150, 110), (268, 110))
    canvas.words(196, 102, "host_*", size=12)
    canvas.words(196, 126, "AXI4-Lite", size=11, colour=GREY)
    canvas.arrow((268, 155), (152, 155), colour=ACCENT)
    canvas.words(196, 149, "irq", size=12, colour=ACCENT)
    canvas.arrow((470, 120), (588, 120))
    canvas.words(545, 112, "mem_*", size=12)
    canvas.words(545, 136, "AXI4", size=11, colour=GREY)
    canvas.words(288, 214, "reset: two registers", anchor="start", size=12)
    canvas.arrow((85, 90), (85, 10), (665, 10), (665, 58), colour=GREY)
    canvas.words(150, 26, "load the memory", size=11, colour=GREY)
    return canvas
