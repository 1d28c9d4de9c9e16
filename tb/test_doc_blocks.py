"""Code blocks of README.md and docs/: each is run, or carries a marker that holds."""

import re
import shutil
from pathlib import Path

import documents
import numpy as np
import prerequisites
import pytest
from PIL import Image
from whole_networks.small import two_signatures

ROOT = Path(__file__).resolve().parents[1]
#: Without the tutorials, which tb/test_tutorials.py runs.
PAGES = (
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "tutorial"),
)
RUN = ("", "slow", "file")
#: Commands and calls that simulate the RTL, which is the device of `celosia run`.
RTL = re.compile(r'--device rtl|device="rtl"|--measure|celosia run (?!.*--device)')

BLOCKS = {page.relative_to(ROOT).as_posix(): documents.blocks(page.read_text()) for page in PAGES}
RUNNABLE = {
    name: [block for block in found if block.marker in RUN and block.language != "text"]
    for name, found in BLOCKS.items()
}
QUICK = [
    name for name, found in RUNNABLE.items() if found and not any(b.marker == "slow" for b in found)
]
SLOW = [name for name, found in RUNNABLE.items() if found and name not in QUICK]


def simulates(found: list[documents.Block]) -> bool:
    """Return True if blocks run the RTL, whose model is built at the first use."""
    return any(RTL.search(block.text.replace("\\\n", " ")) for block in found)


#: Pages that take more than a second without a simulator.
LONG = [f"docs/how-to/{name}.md" for name in ("generate", "pods", "train", "transformers")]


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mnist_model: Path) -> Path:
    """Folder with the files that pages name: it is the current folder of the test."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    shutil.copy(mnist_model, "net.tflite")
    Path("two.tflite").write_bytes(two_signatures())
    np.save("x.npy", rng.integers(-128, 128, (4, 784), np.int8))
    np.save("labels.npy", np.arange(4))
    np.save("bytes.npy", rng.integers(-128, 128, 16, np.int8))
    pictures = rng.integers(0, 256, (11, 28, 28), np.uint8)
    Image.fromarray(pictures[10]).save("digit.png")
    for label, picture in enumerate(pictures[:10]):
        folder = Path("FOLDER") / str(label)
        folder.mkdir(parents=True)
        Image.fromarray(picture).save(folder / "0.png")
    return tmp_path


def onnx_samples() -> None:
    """Write ``net.onnx``, and ``x.npy`` for its input."""
    prerequisites.package("onnxruntime")
    from whole_networks import onnx

    name = next(iter(onnx.NETWORKS))
    content = onnx.quantised(name)
    Path("net.onnx").write_bytes(content)
    import onnx as package

    shape = package.load_from_string(content).graph.input[0].type.tensor_type.shape.dim[1:]
    np.save("x.npy", np.zeros((2, *(each.dim_value for each in shape)), np.float32))


def prepare(found: list[documents.Block]) -> None:
    """Check or make what the blocks of a page need."""
    if any("net.onnx" in block.text for block in found):
        onnx_samples()
    if simulates(found):
        prerequisites.verilator()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.thorough] * (simulates(RUNNABLE[name]) or name in LONG)
        )
        for name in QUICK
    ],
)
def test_blocks_run(name: str, samples: Path) -> None:
    prepare(RUNNABLE[name])
    documents.run_blocks(RUNNABLE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_blocks_run(name: str, samples: Path) -> None:
    prepare(RUNNABLE[name])
    documents.run_blocks(RUNNABLE[name])


def marker_errors(name: str, text: str) -> list[str]:
    """Return one line for each block of a page whose language or marker does not hold."""
    found = []
    for block in documents.blocks(text):
        where = f"{name}:{block.line}"
        if block.language not in documents.LANGUAGES:
            found.append(f"{where}: wanted one of {documents.LANGUAGES}, got {block.language!r}")
        if block.language in ("c", "toml", "verilog") and block.marker in ("", "slow"):
            found.append(f"{where}: wanted a marker, {block.language} is not run")
        if block.marker == "not run" and block.argument not in documents.REASONS:
            found.append(f"{where}: wanted one of {sorted(documents.REASONS)}")
        if block.marker in ("run by", "excerpt of"):
            file = ROOT / block.argument
            source = file.read_text() if file.is_file() else ""
            wanted = block.text if block.marker == "excerpt of" else Path(name).stem
            if wanted not in source:
                found.append(f"{where}: {block.argument} does not hold {wanted.splitlines()[0]!r}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_markers_hold(page: Path) -> None:
    text = page.read_text()
    assert not marker_errors(page.relative_to(ROOT).as_posix(), text)
    assert len(documents.blocks(text)) == text.count("\n```") // 2, "a block that is not found"


def test_the_checks_find_mistakes(samples: Path) -> None:
    good = "<!-- not run: board -->\n```console\n$ celosia flash x\n```\n"
    assert not marker_errors("page.md", good)
    assert marker_errors("page.md", good.replace("board", "tired"))
    assert marker_errors("page.md", good.replace("console", ""))
    assert marker_errors("unnamed.md", good.replace("not run: board", "run by tb/test_docs.py"))
    assert marker_errors("page.md", good.replace("not run: board", "excerpt of hw/core.py"))
    for text in (
        "```console\n$ celosia models\nno such line\n```\n",
        "```console\n$ celosia report missing.tflite\n```\n",
        "```console\n$ rm x.npy\n```\n",
        "```python\nassert False\n```\n",
    ):
        with pytest.raises(AssertionError):
            documents.run_blocks(documents.blocks(text))
    with pytest.raises(ValueError, match="line 1"):
        documents.run_blocks(documents.blocks("```asm\nJUMP\n```\n"))
    documents.run_blocks(documents.blocks("<!-- file: a.s -->\n```asm\nHALT\n```\n"))
    assert Path("a.s").read_text() == "HALT\n"


def test_commands_with_their_output() -> None:
    text = "$ celosia run a \\\n  --output b  # comment\nline\n$ celosia models > list\n"
    assert list(documents.shell_commands(text)) == [
        ("celosia run a    --output b", ["line"]),
        ("celosia models > list", []),
    ]
