"""The site of ``make docs``: generated pages, API, and a build without broken links."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import prerequisites
import pytest
import reference_pages as reference


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


def entry(path: str, title: str = "", children: Any = None) -> SimpleNamespace:
    """A section or a page of the site's navigation."""
    file = SimpleNamespace(src_uri=path, name=Path(path).stem)
    is_page = children is None
    return SimpleNamespace(file=file, title=title or None, children=children, is_page=is_page)


def test_pages_are_in_the_order_of_learning(site: ModuleType) -> None:
    """That of the index; sections as well, and the links from each page to the next."""
    tutorials = ["assembly", "first-network", "pixel-and-weight", "soc", "systolic-array"]
    paths = ["celosia.hw", "celosia.hw.arch", "celosia"]
    api, taught = (
        [entry(f"{folder}/{name}.md") for name in names]
        for folder, names in (("api", paths), ("tutorial", tutorials))
    )
    index, glossary = entry("index.md"), entry("glossary.md")
    items = [index, glossary, entry("", "Api", api), entry("", "Tutorial", taught)]
    pages = [index, glossary, *api, *taught]
    nav = site.on_nav(SimpleNamespace(items=items, pages=pages), None, None)
    assert [item.title for item in nav.items] == [None, "Tutorial", "API", None]
    wanted = "first-network systolic-array assembly soc pixel-and-weight".split()
    assert [page.file.name for page in taught] == wanted
    order = ["index", *wanted, "celosia", "celosia.hw", "celosia.hw.arch", "glossary"]
    names = [page.file.src_uri.rpartition("/")[2].removesuffix(".md") for page in nav.pages]
    assert names == order
    assert [page.next_page for page in nav.pages] == [*nav.pages[1:], None]
    assert [page.previous_page for page in nav.pages] == [None, *nav.pages[:-1]]


@pytest.mark.thorough
def test_build_without_warnings(site: ModuleType, root: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "celosia.sw.runtime.html").read_text(encoding="utf-8")
    assert "InferenceSession" in page and "ONNX Runtime" in page
    page = (tmp_path / "api" / "celosia.sw.ir.html").read_text(encoding="utf-8")
    assert "Number of the operator in the model" in page
    loaded = re.findall(r"<script[^>]*src=[^>]*>|<link[^>]*stylesheet[^>]*>", page)
    assert loaded and not any("http" in element for element in loaded)
