"""Pictures of pages for the documentation."""

import io
import tempfile
from pathlib import Path
from typing import Any

from browser import Browser
from PIL import Image

from celosia.sw.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]


def save(browser: Browser, name: str, height: int, colours: int = 256, **palette: Any) -> None:
    """Write the top of a page to docs/images, as a PNG of few colours, and print its size.

    ``height``: in CSS pixels; ``palette``: how the colours are chosen, see ``Image.quantize``.
    """
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "page.png"
        browser.picture(whole, height)
        content = io.BytesIO()
        few = Image.open(whole, formats=["PNG"]).convert("RGB").quantize(colours, **palette)
        few.save(content, "PNG", optimize=True)
    target = ROOT / "docs" / "images" / name
    write_atomically({target: content.getvalue()})
    print(f"{target.relative_to(ROOT)}: {len(content.getvalue()):,} bytes")
