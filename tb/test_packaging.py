import doctest
import fnmatch
import importlib
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hw", "sim", "sw")
#: Packages of an extra that the tests do without, imported by the modules of one folder.
OUTSIDE = ("executorch",)
#: A folder of data alone.
DATA = "constraints"
#: The folder of the examples, another package.
EXAMPLES = "examples"


def settings(folder: Path) -> dict[str, Any]:
    """Return the table of setuptools of the package in a folder."""
    return tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["setuptools"]


SETUPTOOLS = settings(ROOT)
#: The folder that is the package ``celosia`` itself.
TOP = ROOT / SETUPTOOLS["package-dir"]["celosia"]
# Written so that no pattern matches itself.
FORBIDDEN = re.compile(
    r"deb[.]debian[.]org|pypi[.]org|files[.]pythonhosted|registry[.]npmjs"
    r"|/[w]ork/|/[f]arm/|/[r]oot/|[.][.]/shared"
)


def tracked_files() -> list[Path]:
    """Return the files git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git working tree")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def package(folder: Path) -> str:
    """Return the name that a folder is imported by."""
    parts = () if folder == TOP else folder.relative_to(ROOT).parts
    if parts[:1] == (EXAMPLES,):
        return ".".join(("celosia_examples", *parts[1:]))
    return ".".join(("celosia", *parts))


MODULES = ["celosia"] + sorted(
    f"{package(path.parent)}.{path.stem}"
    for top in (*PACKAGES, EXAMPLES)
    for path in (ROOT / top).rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


def test_nothing_else_is_at_the_top() -> None:
    folders = {*PACKAGES, DATA, EXAMPLES, "tb", "docs", ".ci", ".github"}
    texts = {"README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff"}
    settings = {"Makefile", "pyproject.toml", "mkdocs.yml", ".gitignore"}
    found = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    assert found <= folders | texts | settings


@pytest.mark.parametrize(
    ("table", "tops", "data"),
    [(SETUPTOOLS, PACKAGES, {ROOT / DATA}), (settings(ROOT / EXAMPLES), (EXAMPLES,), set())],
    ids=["celosia", "examples"],
)
def test_package_list_is_the_tree(table, tops, data) -> None:
    folders = {path.parent for top in tops for path in (ROOT / top).rglob("*.py")}
    assert table["packages"] == sorted(map(package, folders | data))
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_every_data_file_is_packaged() -> None:
    known = SETUPTOOLS["package-data"] | settings(ROOT / EXAMPLES)["package-data"]
    own = {ROOT / EXAMPLES / name for name in ("README.md", "pyproject.toml")}
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        if path.suffix == ".py" or path in own or parts[0] not in (*PACKAGES, EXAMPLES):
            continue
        # A folder without Python files is data of the package that it is in.
        folder = next(each for each in path.parents if (each / "__init__.py").is_file())
        patterns = known.get(package(folder), [])
        within = path.relative_to(folder).as_posix()
        assert any(fnmatch.fnmatch(within, pattern) for pattern in patterns), path


def test_imports_come_from_this_tree() -> None:
    top = importlib.import_module("celosia").__file__
    assert top, "make view"
    assert Path(top).resolve() == TOP / "__init__.py"
    for package in PACKAGES:
        module = importlib.import_module(f"celosia.{package}")
        assert Path(module.__path__[0]).resolve() == ROOT / package
    examples = importlib.import_module("celosia_examples")
    assert Path(examples.__path__[0]).resolve() == ROOT / EXAMPLES


def test_tb_is_no_package() -> None:
    packages = {ROOT / "tb" / "lib", ROOT / "tb" / "campaigns"}
    inits = (ROOT / "tb").rglob("__init__.py")
    assert not [path for path in inits if packages.isdisjoint(path.parents)]


def test_no_foreign_names() -> None:
    """No path of a machine, no host of a registry."""
    wrong = []
    for path in tracked_files():
        if path.relative_to(ROOT) == Path(".ci/run"):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        for match in FORBIDDEN.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    assert not wrong


@pytest.mark.parametrize(
    "text", ["/wor" + "k/x", "/roo" + "t/x", "../share" + "d", "http://deb.debian" + ".org/debian"]
)
def test_foreign_names_are_seen(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_messages_name_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    tops = (*PACKAGES, EXAMPLES)
    texts = [path.read_text() for top in tops for path in (ROOT / top).rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'install_command\(["\'](\w+)', text)}
    assert named and named <= set(extras)
    # No registry has the package: such a command would not work.
    assert not [text for text in texts if re.search(r"pip install '?celosia", text)]


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name: str) -> None:
    """Every module imports, and its examples hold."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in OUTSIDE:
            raise
        pytest.skip(str(error))
    result = doctest.testmod(module)
    assert result.failed == 0
