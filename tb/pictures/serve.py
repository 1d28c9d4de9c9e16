"""Picture of the page of ``celosia serve``: a 3 drawn with the mouse, and the core's result."""

import sys
import threading
from pathlib import Path

from PIL import Image

from celosia.hw.arch.presets import preset
from celosia_examples.digits.app import open_server
from celosia_examples.digits.classifier import Classifier

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tb" / "lib"))

#: Corners of a 3, as shares of the drawing area; the page is drawn on along curves through them.
_CORNERS = (
    *((0.30, 0.25), (0.40, 0.16), (0.52, 0.14), (0.64, 0.20), (0.68, 0.30), (0.62, 0.41)),
    *((0.48, 0.47), (0.60, 0.50), (0.70, 0.58), (0.72, 0.70), (0.64, 0.81), (0.50, 0.86)),
    *((0.36, 0.82), (0.28, 0.73)),
)
_POINTS = 8


def curve() -> list[tuple[float, float]]:
    """Return points of a Catmull-Rom spline through the corners."""
    ends = (_CORNERS[0], *_CORNERS, _CORNERS[-1])
    points = []
    for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:], strict=False):
        for n in range(_POINTS):
            t = n / _POINTS
            weights = (
                (-t + 2 * t**2 - t**3) / 2,
                (2 - 5 * t**2 + 3 * t**3) / 2,
                (t + 4 * t**2 - 3 * t**3) / 2,
                (-(t**2) + t**3) / 2,
            )
            x, y = (
                sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True))
                for axis in (0, 1)
            )
            points.append((x, y))
    return [*points, _CORNERS[-1]]


def main() -> None:
    """Write docs/images/serve.png."""
    from browser import Browser
    from page_picture import save

    server = open_server(Classifier("mnist_cnn_5x5", preset("edge")), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Browser(1120, 900) as browser:
        browser.prefer(reduced_motion="reduce")
        browser.open(f"http://{server.host}:{server.port}/")
        browser.wait("document.querySelector('#facts').textContent")
        browser.stroke("#pad", curve())
        browser.wait("!document.querySelector('#play').disabled")
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        # Colours of few pixels count as well: the legend has some.
        palette = {"method": Image.Quantize.MEDIANCUT, "kmeans": 4, "dither": Image.Dither.NONE}
        height = browser.run("document.documentElement.scrollHeight")
        save(browser, "serve.png", height, **palette)
    server.shutdown()


if __name__ == "__main__":
    main()
