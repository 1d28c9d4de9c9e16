"""``celosia demo``: handwritten digits through the simulated core, and one picture of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from celosia import Config, DeviceError, InferenceSession
from celosia.sw.data import find
from celosia.sw.files import png_bytes, write_atomically
from celosia.sw.runtime.activity import by_cause
from celosia.sw.runtime.session import Statistics

_MODEL = "mnist_mlp"
_RED = "#c0392b"
_INK = "#22303c"

#: Classes of counters in the order in which they are drawn, with their text in the legend.
CLASSES = {
    "busy": ("busy", "#1f6f8b"),
    "weights": ("waiting for weights", "#e67e22"),
    "memory": ("waiting for memory", "#f1c40f"),
    "drain": ("results under way", "#7fb7be"),
    "queue": ("queue full, or a fence", "#c8b88a"),
    "wait load": ("waiting for load", "#6c5b7b"),
    "wait store": ("waiting for store", "#9a86a4"),
    "wait matrix": ("waiting for matrix", "#b8a9c9"),
    "wait vector": ("waiting for vector", "#d9cfe3"),
    "empty": ("no instruction", "#ecf0f1"),
}


def demo(
    output: Path,
    *,
    config: Config,
    images: int = 256,
    batch: int = 64,
    latency: int = 32,
    bandwidth: float = 1.0,
    device: str = "rtl",
    cores: int = 1,
    ports: int = 1,
) -> Statistics:
    """Classify digits, print results and costs, and draw both.

    Parameters
    ----------
    output : Path
        Picture to write, PNG.
    config : Config
        Sizes of the core.
    images : int
        Number of test digits.
    batch : int
        Digits of one run.
    latency, bandwidth
        Of the external memory, on the device ``rtl``; see ``open_session``.
    device : str
        Name of the device.
    cores, ports : int
        Of a pod, see ``open_session``.

    Returns
    -------
    Statistics
        Costs of the run.

    Raises
    ------
    DeviceError
        If the device fails, or gives other bytes than the machine model.
    """
    digits = find("mnist")
    pictures, labels = digits.images[:images], digits.labels[:images]
    core = {"config": config, "batch": min(batch, -(-len(pictures) // cores))}
    options = {"latency": latency, "bandwidth": bandwidth} if device == "rtl" else {}
    y, statistics = _run(pictures, device=device, cores=cores, ports=ports, **core, **options)
    expected, _ = _run(pictures, **core)
    if not np.array_equal(y, expected):
        raise DeviceError(f"{device}: {np.sum(y != expected)} bytes differ from the machine model")
    guesses = y.argmax(axis=1)
    accuracy = float(np.mean(guesses == labels))
    lines = summary(statistics, accuracy)
    if digits.note:
        lines["note"] = digits.note
    for name, text in lines.items():
        print(f"{name:<24} {text}")
    print(f"{'bytes':<24} {y.size:,}, the same from {device} and from the machine model")
    write_atomically({output: draw(pictures, labels, guesses, statistics, accuracy)})
    print(f"{'picture':<24} {output}")
    return statistics


def _run(pictures: np.ndarray, **options: Any) -> tuple[np.ndarray, Statistics]:
    """Return the scores of pictures, int8, and the costs."""
    with InferenceSession(_MODEL, **options) as session:
        (source,) = session.get_inputs()
        pixels = pictures.reshape(len(pictures), -1) / np.float32(255)
        (y,) = session.run(None, {source.name: pixels}, progress=True)
        return y, session.statistics


def summary(statistics: Statistics, accuracy: float) -> dict[str, str]:
    """Return a text for each figure of the result."""
    config = statistics.program.config
    wrong = round(statistics.inputs * (1 - accuracy))
    several = f"{statistics.cores} x " * (statistics.cores > 1)
    lines = {
        "core": f"{several}{config.name}, {config.rows} x {config.columns} multipliers",
        "accuracy": f"{accuracy:.2%} of {statistics.inputs} digits, {wrong} wrong",
    }
    if statistics.cycles_per_input and statistics.utilisation and statistics.cycles:
        lines["cycles per image"] = f"{statistics.cycles_per_input:,.1f}"
        lines["multipliers in use"] = f"{statistics.utilisation:.1%}"
        speed = statistics.cycles / statistics.seconds
        lines["simulation"] = (
            f"{statistics.inputs / statistics.seconds:,.0f} images/s, {speed:,.0f} cycles/s"
        )
    return lines


def draw(
    pictures: np.ndarray,
    labels: np.ndarray,
    guesses: np.ndarray,
    statistics: Statistics,
    accuracy: float,
) -> bytes:
    """Return the picture, PNG: digits with their predicted classes, and a bar for each unit.

    - ``pictures``: uint8, shape ``(N, 28, 28)``.
    - ``labels``, ``guesses``: integers, shape ``(N,)``.
    - ``statistics``: costs of the run.
    - ``accuracy``: share of right guesses.
    """
    from matplotlib.figure import Figure

    across = 32
    down = -(-len(pictures) // across)
    counters = by_cause(statistics.counters or {})
    figure = Figure(figsize=(15, 2.2 + 0.56 * down + 0.42 * len(counters)), dpi=110)
    heights = [0.56 * down + 0.2, max(0.42 * len(counters), 0.01) + 0.3]
    top, bottom = figure.subplots(
        2,
        1,
        height_ratios=heights,
        gridspec_kw={"left": 0.07, "right": 0.985, "top": 0.93, "bottom": 0.1, "hspace": 0.12},
    )
    facts = summary(statistics, accuracy)
    line = [facts["core"], facts["accuracy"]]
    if "cycles per image" in facts:
        line.append(f"{facts['cycles per image']} cycles per image")
        line.append(f"{facts['multipliers in use']} of the multipliers in use")
    figure.suptitle("  ·  ".join(line), color=_INK, fontsize=13, y=0.975)
    _digits(top, pictures, labels, guesses, across)
    _bars(bottom, counters)
    return png_bytes(figure)


def _digits(
    axes: Any, pictures: np.ndarray, labels: np.ndarray, guesses: np.ndarray, across: int
) -> None:
    """Draw the digits in rows, under each the guess; wrong ones in red, with the label."""
    from matplotlib.patches import Rectangle

    width, height = 34, 46
    down = -(-len(pictures) // across)
    sheet = np.zeros((down * height, across * width), np.uint8)
    for number, picture in enumerate(pictures):
        y, x = number // across * height, number % across * width
        sheet[y + 2 : y + 30, x + 3 : x + 31] = picture
        right = guesses[number] == labels[number]
        text = str(guesses[number]) if right else f"{guesses[number]} not {labels[number]}"
        axes.text(
            x + width / 2,
            y + 38,
            text,
            ha="center",
            va="center",
            fontsize=7.5 if right else 6.5,
            color=_INK if right else _RED,
            fontweight="normal" if right else "bold",
        )
        if not right:
            corner, size = (x + 1.5, y + 0.5), (31, 31)
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=_RED, linewidth=1.6))
    axes.imshow(255 - sheet, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="equal")
    axes.set_axis_off()


def _bars(axes: Any, counters: Mapping[str, Mapping[str, int]]) -> None:
    """Draw one bar for each unit, as long as the run, split by classes of cycles."""
    if not counters:
        axes.set_axis_off()
        return
    units = list(counters)
    seen = [name for name in CLASSES if any(classes.get(name) for classes in counters.values())]
    total = max(sum(classes.values()) for classes in counters.values())
    start = np.zeros(len(units))
    for name in seen:
        text, colour = CLASSES[name]
        share = np.array([counters[unit].get(name, 0) / total * 100 for unit in units])
        axes.barh(
            units, share, left=start, label=text, color=colour, edgecolor="white", linewidth=0.5
        )
        for row, (left, long) in enumerate(zip(start, share, strict=True)):
            if long > 4:
                dark = name in ("busy", "wait load", "wait store")
                axes.text(
                    left + long / 2,
                    row,
                    f"{long:.0f} %",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else _INK,
                )
        start += share
    _label_bars(axes, total, len(seen))


def _label_bars(axes: Any, total: int, classes: int) -> None:
    """Name the axis, the units and the classes; leave out the frame."""
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"share of {total:,} cycles", color=_INK, fontsize=9)
    axes.tick_params(colors=_INK, labelsize=9, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.legend(
        ncols=classes,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
        fontsize=9,
        handlelength=1.1,
        handletextpad=0.5,
        columnspacing=1.1,
    )
