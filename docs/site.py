"""Hooks of MkDocs and Griffe: API pages, generated pages, order of sections and pages.

Instruction set, registers and operators are written again at each build, so that the site has the
tables of these sources. The API has a page for each package, with all of its public modules.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import reference_pages
from griffe import Attribute, Docstring, Extension, Object
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

from celosia.sw.operators.page import as_markdown

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Tutorial", "How to", "Reference", "Design", "API", "Glossary")


def packages() -> dict[str, Path]:
    """Return the folders of the packages that pyproject.toml lists, by import path.

    Those of files other than modules have no page.
    """
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    setup = tools["setuptools"]
    folders = setup["package-dir"]

    def folder(name: str) -> Path:
        if name in folders:
            return ROOT / folders[name]
        parent, _, last = name.rpartition(".")
        return folder(parent) / last

    folders_of = {name: folder(name) for name in setup["packages"]}
    return {name: folder for name, folder in folders_of.items() if any(folder.glob("*.py"))}


def modules(package: str, folder: Path) -> Iterator[str]:
    """Yield the import paths of a package and of its public modules."""
    yield package
    for file in sorted(folder.glob("*.py")):
        if not file.stem.startswith("_"):
            yield f"{package}.{file.stem}"


def api_page(package: str, folder: Path) -> str:
    """Return the API page of a package, Markdown."""
    first, *others = modules(package, folder)
    title = f"---\ntitle: {package}\n---\n\n::: {first}\n    options: {{heading_level: 1}}\n\n"
    return title + "\n".join(f"::: {name}\n" for name in others)


def generated() -> dict[str, str]:
    """Return the pages that are written from tables and docstrings, by their paths."""
    pages = {f"reference/{name}": page() for name, page in reference_pages.PAGES.items()}
    pages["reference/operators.md"] = as_markdown()
    api = {f"api/{name}.md": api_page(name, folder) for name, folder in packages().items()}
    return pages | api


def on_files(files: Files, config: Any) -> Files:
    """Replace generated pages by fresh ones, and add the API."""
    for path, content in generated().items():
        if old := files.get_file_from_path(path):
            files.remove(old)
        files.append(File.generated(config, path, content=content))
    return files


def linked() -> list[str]:
    """Return the pages that the index links to, in its order, without repetition."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(r"\]\(([\w/-]+\.md)", text)))


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """Put sections and pages into the order of the index; other pages follow by name."""
    pages = linked()

    def order(item: Any) -> int:
        title = item.file.name.capitalize() if item.is_page else item.title.replace("-", " ")
        return SECTIONS.index(title) if title in SECTIONS else -1

    def order_of_page(page: Any) -> tuple[int, str]:
        path = page.file.src_uri
        place = pages.index(path) if path in pages else len(pages)
        return place, path.removesuffix(".md")

    for item in nav.items:
        if item.title == "Api":
            item.title = "API"
        if item.children:
            item.children.sort(key=order_of_page)
    nav.items.sort(key=order)
    _link(nav.pages, [page for item in nav.items for page in item.children or [item]])
    return nav


def _link(pages: list[Any], ordered: list[Any]) -> None:
    """Give each page the one before and after it in the order of the site."""
    known = [page for page in ordered if page.is_page]
    pages[:] = [*known, *(page for page in pages if page not in known)]
    for number, page in enumerate(pages):
        page.previous_page = pages[number - 1] if number else None
        page.next_page = pages[number + 1] if number + 1 < len(pages) else None


def comment(lines: list[str], number: int) -> str:
    """Return the text of the comment ``#:`` beside or above the attribute in line ``number``.

    A comment above holds for all attributes up to the next comment or blank line.
    """
    code, _, beside = lines[number - 1].partition("#:")
    above: list[str] = []
    for line in reversed(lines[: number - 1]) if code.strip() and not beside else ():
        code, mark, text = line.partition("#:")
        if code.strip() and mark or not line.strip() or above and not mark:
            break
        above[:0] = [text.strip()] * bool(mark)
    return beside.strip() or " ".join(above)


class Members(Extension):
    """Comments ``#:`` of attributes are their docstrings.

    Sections ``Members`` of components are read as ``Attributes``, so that they become lists.
    """

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Give an attribute its comment."""
        if not attr.docstring and attr.lineno and isinstance(attr.filepath, Path):
            text = comment(attr.lines_collection[attr.filepath], attr.lineno)
            attr.docstring = Docstring(text, parent=attr) if text else None

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Rename the section before it is parsed."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Members\n-+$", "Attributes\n----------", obj.docstring.value, flags=re.MULTILINE
            )
