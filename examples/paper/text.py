"""The paper's table 3 beside the estimates, and its roofline."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from celosia import Config
from celosia.sw.files import png_bytes
from celosia_examples.paper.networks import NETWORKS, Made
from celosia_examples.paper.published import MEMORY as PAPER_MEMORY
from celosia_examples.paper.published import PEAK_TOPS, SOURCE, WORKLOADS
from celosia_examples.paper.shares import ShareResult

_INK, _COLORS = "#22303c", {"paper": "#c0392b", "core": "#2471a3"}

_HEAD = ("network", "batch", "", "active", "stall", "shift", "other", "useful", "TOPS")

#: Places of a name from its point, in points, the best first; and pixels around a point.
_ASIDE = [(6, -10), (6, 4), (-36, 4), (-36, -10), (-14, 8), (-14, -16), (10, -2), (-42, -2)]
_ASIDE += [(4 * x, 2 * y) for x, y in _ASIDE[:4]]
_AROUND = 5

_NOTES = """\
paper: {source}; measured. Others: estimates.
core: active: a vector enters the array; stall: weights have not arrived; shift: a tile moves into
  the array and no vector enters; other: the rest. Per cent of all cycles.
TPU: the same cycles, those of waiting divided as on the TPU: it shifts a whole tile in before a
  pass, where this core loads rows ahead of the first vector. After the shift, up to {rows} cycles in
  which sums leave the array count as other. The paper does not define the border.
In the paper the TOPS of the LSTMs are half of what the useful share of {peak:.0f} gives: they fit
  16-bit activations, with which the TPU works at half speed. Here all activations have 8 bits.
Core: {rows} x {columns}, {clock:.0f} MHz, unified buffer of {buffer} MiB, {tiles} weight tiles,
  {speed:.0f} GB/s of memory for weights, inputs and outputs together; the TPU has 14 GB/s for the
  latter. The paper names 30 and 34 GB/s. Host time is left out on both sides."""


class Setting(NamedTuple):
    """Core, clock in Hz, and bytes per second of the external memory."""

    config: Config
    clock_hz: float
    memory: float

    @property
    def bandwidth(self) -> float:
        """Beats of the external memory per cycle."""
        return self.memory / self.clock_hz / self.config.bus_bytes

    @property
    def peak_tops(self) -> float:
        """Operations per second at most, in units of 10¹²."""
        return 2e-12 * self.config.rows * self.config.columns * self.clock_hz


Results = Mapping[str, tuple[Made, ShareResult]]


def as_text(results: Results, setting: Setting) -> str:
    """Return the table, the assumptions and the sources."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for name, (_, result) in results.items():
        paper, tops = WORKLOADS[name], result.tops(setting.clock_hz)
        shares = (paper.active, paper.stall, paper.shift, paper.other, paper.useful, paper.tops)
        rows.append((name, str(paper.batch), "paper", *_tenths(shares)))
        rows.append(("", "", "core", *_tenths((*result.shares.percent(), result.useful, tops))))
        rows.append(("", "", "TPU", *_tenths(result.as_tpu.percent()), "", ""))
    lines = [
        "  ".join((f"{a:7}", f"{b:>5}", f"{c:5}", *(f"{x:>6}" for x in others)))
        for a, b, c, *others in rows
    ]
    config = setting.config
    notes = _NOTES.format(
        source=SOURCE,
        rows=config.rows,
        columns=config.columns,
        clock=setting.clock_hz / 1e6,
        buffer=config.unified_bytes >> 20,
        tiles=config.weight_tiles,
        speed=setting.memory / 1e9,
        peak=PEAK_TOPS,
    )
    return "\n".join((*(line.rstrip() for line in lines), "", notes, *_shapes(results)))


def _tenths(values: Any) -> list[str]:
    return [f"{value:.1f}" for value in values]


def _shapes(results: Results) -> list[str]:
    lines = ["Shapes are assumptions; weights are random:"]
    for name, (network, _) in results.items():
        paper = f"{WORKLOADS[name].weights:g} M in the paper"
        lines.append(
            f"  {name}: {NETWORKS[name][1]}; {network.weights / 1e6:.1f} M weights, {paper}."
        )
    return lines


def annotate(axes: Any, points: Sequence[tuple[str, float, float, str]]) -> list[Any]:
    """Draw points of name, x, y and colour; return their names, which do not overlap.

    A name is beside its point, where it covers least of the points and the names before it.
    """
    figure, names = axes.figure, []
    for _, x, y, color in points:
        axes.plot(x, y, "o", color=color)
    figure.canvas.draw()
    marks = [axes.transData.transform((x, y)) for _, x, y, _ in points]
    taken = [(x - _AROUND, y - _AROUND, x + _AROUND, y + _AROUND) for x, y in marks]
    for name, x, y, color in points:
        drawn = axes.annotate(
            name, (x, y), (0, 0), textcoords="offset points", fontsize=8, color=color
        )
        places = []
        for aside in _ASIDE:
            drawn.set_position(aside)
            box = drawn.get_window_extent().extents
            places.append((_covered(box, taken), len(places), aside, box))
        _, _, aside, box = min(places, key=lambda place: place[:2])
        drawn.set_position(aside)
        taken.append(box)
        names.append(drawn)
    return names


def _covered(box: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """Return the pixels of a box that lie in others; boxes are left, bottom, right, top."""
    return sum(
        max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
        * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
        for other in others
    )


def draw(results: Results, setting: Setting) -> bytes:
    """Return the roofline, PNG: operations per second over multiplications per byte of weights."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=110)
    axes = figure.subplots(gridspec_kw={"left": 0.09, "right": 0.97, "top": 0.92, "bottom": 0.12})
    ends = (10.0, 10_000.0)
    for peak, speed, who, style in (
        (PEAK_TOPS, PAPER_MEMORY, "paper", "--"),
        (setting.peak_tops, setting.memory, "core", "-"),
    ):
        knee = peak / (2e-12 * speed)
        label = f"bound, {who}: {peak:.0f} TOPS, {speed / 1e9:.0f} GB/s of weights"
        roof = [min(peak, 2e-12 * speed * x) for x in (ends[0], knee, ends[1])]
        axes.loglog((ends[0], knee, ends[1]), roof, style, color=_COLORS[who], label=label)
    points = []
    for name, (network, result) in results.items():
        paper, ours = WORKLOADS[name], result.multiplications / network.weights
        points.append((name, float(paper.intensity), paper.tops, _COLORS["paper"]))
        points.append((name, ours, result.tops(setting.clock_hz), _COLORS["core"]))
    axes.set_title("Roofline of the core, and of the paper's TPU", color=_INK, fontsize=11)
    axes.set_xlabel("multiplications per byte of weights", color=_INK)
    axes.set_ylabel("TOPS", color=_INK)
    axes.set_xlim(*ends)
    axes.set_ylim(1, 2 * PEAK_TOPS)
    axes.grid(color="#ecf0f1")
    axes.legend(loc="upper left", frameon=False)
    annotate(axes, points)
    return png_bytes(figure)
