"""Drawings of boxes, words and arrows as SVG files."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

#: Pale fills for things that are told apart by colour.
COLOURS = ("#cfe3f7", "#fbe0c3", "#d5efd2", "#f3d3e6", "#e5dff5", "#f6efb8", "#d0eef0", "#e6e1d8")
INK = "#222222"
GREY = "#8a8a8a"
ACCENT = "#b0321e"


class Canvas:
    """A white page.

    Parameters
    ----------
    width, height : int
        Pixels.
    text : str
        Text alternative.
    """

    def __init__(self, width: int, height: int, text: str) -> None:
        self.root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width} {height}",
                "width": str(width),
                "height": str(height),
                "role": "img",
                "font-family": "sans-serif",
            },
        )
        ElementTree.SubElement(self.root, "title").text = text
        defs = ElementTree.SubElement(self.root, "defs")
        for colour in (INK, GREY, ACCENT):
            marker = {"id": f"head-{colour[1:]}", "viewBox": "0 0 8 8", "refX": "7", "refY": "4"}
            head = ElementTree.SubElement(
                defs,
                "marker",
                {**marker, "markerWidth": "7", "markerHeight": "7", "orient": "auto"},
            )
            ElementTree.SubElement(head, "path", {"d": "M0 0L8 4L0 8z", "fill": colour})
        self.box(0, 0, width, height, line="none")

    def box(
        self, x: int, y: int, width: int, height: int, *, fill: str = "#ffffff", line: str = INK
    ) -> None:
        """Draw a rectangle."""
        size = {"x": x, "y": y, "width": width, "height": height}
        ElementTree.SubElement(
            self.root,
            "rect",
            {**{name: str(value) for name, value in size.items()}, "fill": fill, "stroke": line},
        )

    def words(
        self,
        x: int,
        y: int,
        text: str,
        *,
        size: int = 13,
        bold: bool = False,
        colour: str = INK,
        anchor: str = "middle",
    ) -> None:
        """Write one line; ``y`` is that of its base line."""
        given = {"x": str(x), "y": str(y), "font-size": str(size), "fill": colour}
        given |= {"text-anchor": anchor, "font-weight": "bold" if bold else "normal"}
        ElementTree.SubElement(self.root, "text", given).text = text

    def arrow(self, *points: tuple[int, int], colour: str = INK, width: int = 1) -> None:
        """Draw a line through the points, with a head at the last."""
        ElementTree.SubElement(
            self.root,
            "polyline",
            {
                "points": " ".join(f"{x},{y}" for x, y in points),
                "fill": "none",
                "stroke": colour,
                "stroke-width": str(width),
                "marker-end": f"url(#head-{colour[1:]})",
            },
        )

    def labelled(
        self,
        corner: tuple[int, int],
        size: tuple[int, int],
        lines: Sequence[str],
        *,
        fill: str = "#ffffff",
        line: str = INK,
    ) -> None:
        """Draw a rectangle with lines of text in its middle, the first one bold."""
        (x, y), (width, height) = corner, size
        self.box(x, y, width, height, fill=fill, line=line)
        top = y + (height - 17 * len(lines)) // 2 + 13
        for n, text in enumerate(lines):
            self.words(x + width // 2, top + 17 * n, text, bold=not n, size=13 if not n else 12)

    def text(self) -> str:
        """Return the file."""
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root, encoding="unicode") + "\n"

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.text())
