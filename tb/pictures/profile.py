"""Picture of the page of ``celosia profile``: mnist_a on the board ULX3S-85F."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from celosia.sw.cli import main as celosia
from celosia.sw.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tb" / "lib"))

_WIDTH, _HEIGHT = 1360, 1750


def main() -> None:
    """Write docs/images/profile.png."""
    from browser import Browser

    with tempfile.TemporaryDirectory() as folder, Browser(_WIDTH, _HEIGHT) as browser:
        page, whole = Path(folder) / "page.html", Path(folder) / "page.png"
        celosia(["profile", "mnist_a", "--board", "ulx3s-85f", "-o", str(page)])
        browser.open(page.as_uri())
        browser.picture(whole, _HEIGHT)
        content = io.BytesIO()
        Image.open(whole).convert("RGB").quantize(256).save(content, "PNG", optimize=True)
    target = ROOT / "docs" / "images" / "profile.png"
    write_atomically({target: content.getvalue()})
    print(f"{target.relative_to(ROOT)}: {len(content.getvalue()):,} bytes")


if __name__ == "__main__":
    main()
