"""The site of ``make docs``: generated pages, API, and a build without broken links."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import prerequisites
import pytest

from celosia.hw.arch import reference


@pytest.fixture
def site(root: Path) -> ModuleType:
    """Hooks of MkDocs."""
    prerequisites.package("mkdocs")
    spec = spec_from_file_location("celosia_site", root / "docs" / "site.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages(site: ModuleType, root: Path) -> None:
    pages = site.generated()
    for name in (*reference.PAGES, "operators.md"):
        path = f"reference/{name}"
        assert pages[path] == (root / "docs" / path).read_text(encoding="utf-8")
    assert "::: celosia.hw.core\n" in pages["api/celosia.hw.md"]
    assert "::: celosia.sw.runtime.interpreter\n" in pages["api/celosia.sw.runtime.md"]
    assert all(folder.is_dir() for folder in site.packages().values())


def test_comments_describe_attributes(site: ModuleType) -> None:
    lines = ["#: Rows and", "#: columns.", "a: int", "b: int", "c: int  #: Own.", "d: int"]
    wanted = ["Rows and columns.", "Rows and columns.", "Own.", ""]
    assert [site.comment(lines, number) for number in range(3, 7)] == wanted


@pytest.mark.thorough
def test_build_without_warnings(site: ModuleType, root: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "celosia.sw.runtime.html").read_text(encoding="utf-8")
    assert "InferenceSession" in page and "ONNX Runtime" in page
    page = (tmp_path / "api" / "celosia.sw.ir.html").read_text(encoding="utf-8")
    assert "Number of the operator in the model" in page
    assert "http" not in "".join(
        line for line in page.splitlines() if "<script" in line or "stylesheet" in line
    )
