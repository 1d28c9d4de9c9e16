"""Picture of the page of ``celosia profile``: mnist_cnn_5x5 on the board ULX3S-85F."""

import sys
import tempfile
from pathlib import Path

from celosia.sw.cli import main as celosia

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tb" / "lib"))

_WIDTH, _HEIGHT = 1360, 1750


def main() -> None:
    """Write docs/images/profile.png."""
    from browser import Browser
    from page_picture import save

    with tempfile.TemporaryDirectory() as folder, Browser(_WIDTH, _HEIGHT) as browser:
        page = Path(folder) / "page.html"
        celosia(["profile", "mnist_cnn_5x5", "--board", "ulx3s-85f", "-o", str(page)])
        browser.open(page.as_uri())
        save(browser, "profile.png", _HEIGHT)


if __name__ == "__main__":
    main()
