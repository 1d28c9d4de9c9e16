"""Picture of the notebook of the tutorial, after its cells have run."""

import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tb" / "lib"))

_WIDTH, _HEIGHT = 1000, 1260


def main() -> None:
    """Write docs/images/notebook.png."""
    from browser import Browser
    from page_picture import save

    with tempfile.TemporaryDirectory() as name, Browser(_WIDTH, _HEIGHT) as browser:
        # The notebook writes a waveform beside itself.
        folder = Path(shutil.copytree(ROOT / "docs" / "tutorial", Path(name) / "tutorial"))
        notebook = nbformat.read(folder / "systolic-array.ipynb", as_version=4)
        NotebookClient(notebook, kernel_name="python3").execute(cwd=str(folder))
        page = folder / "page.html"
        page.write_text(HTMLExporter().from_notebook_node(notebook)[0])
        browser.open(page.as_uri())
        save(browser, "notebook.png", _HEIGHT, 64)


if __name__ == "__main__":
    main()
