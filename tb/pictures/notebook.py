"""Picture of the notebook of the tutorial, after its cells have run."""

import io
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image

from celosia.sw.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tb" / "lib"))

_WIDTH, _HEIGHT = 1000, 1260


def main() -> None:
    """Write docs/images/notebook.png."""
    from browser import Browser

    with tempfile.TemporaryDirectory() as name, Browser(_WIDTH, _HEIGHT) as browser:
        # The notebook writes a waveform beside itself.
        folder = Path(shutil.copytree(ROOT / "docs" / "tutorial", Path(name) / "tutorial"))
        notebook = nbformat.read(folder / "systolic-array.ipynb", as_version=4)
        NotebookClient(notebook, kernel_name="python3").execute(cwd=str(folder))
        page, whole = folder / "page.html", folder / "page.png"
        page.write_text(HTMLExporter().from_notebook_node(notebook)[0])
        browser.open(page.as_uri())
        browser.picture(whole, _HEIGHT)
        content = io.BytesIO()
        Image.open(whole).convert("RGB").quantize(64).save(content, "PNG", optimize=True)
    target = ROOT / "docs" / "images" / "notebook.png"
    write_atomically({target: content.getvalue()})
    print(f"{target.relative_to(ROOT)}: {len(content.getvalue()):,} bytes")


if __name__ == "__main__":
    main()
