"""The profile page in a browser: on a telephone nothing overlaps or lies outside."""

from pathlib import Path

import prerequisites

from celosia.sw.cli import main

#: The boxes of the labels of the time axis that are shown, from left to right.
LABELS = """[...document.querySelectorAll("#time .ticks span")]
  .filter(one => getComputedStyle(one).visibility === "visible")
  .map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"""
#: The right end of the widest figure of the column with the cycles.
CYCLES = """Math.max(...[...document.querySelectorAll("#layers td:nth-child(6)")]
  .map(one => one.getBoundingClientRect().right))"""


def test_labels_and_cycles_at_any_width(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert main(f"profile mnist_cnn_5x5 --preset nano -o {path}".split()) == 0
    with prerequisites.browser() as page:
        page.open(path.as_uri())
        for width, least in ((360, 2), (390, 2), (700, 5), (1280, 5)):
            page.resize(width, 800, phone=width < 700)
            boxes = page.run(LABELS)
            assert len(boxes) >= least
            for (_, end), (start, _) in zip(boxes, boxes[1:], strict=False):
                assert end < start
            assert page.run("document.documentElement.scrollWidth") <= width
            assert page.run(CYCLES) <= width
