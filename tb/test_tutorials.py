"""The tutorials: each command is run, and each line shown is a line that it prints.

A ``console`` block holds commands after ``$``, each with its output. A ``text`` block continues the
output of the last command; before the first command it is a diagram. ``...`` stands for anything. A
command fails just when a line shown is an error of ``celosia``.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prerequisites
import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial"
BLOCK = re.compile(r"^```(console|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
#: Seconds that a command may take.
LIMIT = 300


def transcript(page: str) -> Iterator[tuple[str | None, str]]:
    """Yield each command with the output shown; no command where an output continues."""
    for kind, body in BLOCK.findall(page):
        if kind == "text":
            yield None, body
            continue
        _, *parts = COMMAND.split(body)
        for command, output in zip(parts[::2], parts[1::2], strict=True):
            yield command.replace("\\\n", " "), output


def pattern(shown: str) -> str:
    """Return the regular expression of an output that is shown."""
    return ".*?".join(map(re.escape, shown.rstrip().split("...")))


def run(command: str, folder: Path, fails: bool = False) -> str:
    """Return what a command prints; it must end with an error just where ``fails`` is set."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode != 0) == fails, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


def check(page: str, folder: Path) -> int:
    """Run the commands of a page and compare; return how many there were."""
    output, place, count = "", 0, 0
    for command, shown in transcript(page):
        if command is None and not count:
            continue
        if command is None:
            found = re.compile(pattern(shown), re.DOTALL).search(output, place)
            assert found, f"not printed:\n{shown}\nafter\n{output[place:]}"
            place = found.end()
            continue
        # The tests have their environment already.
        if command.startswith(". "):
            continue
        fails = re.search(r"^(\.\.\.)?celosia: ", shown, re.MULTILINE) is not None
        output, place, count = run(command, folder, fails), 0, count + 1
        found = re.match(pattern(shown) + r"\s*\Z", output, re.DOTALL)
        assert found, f"$ {command}\nwanted\n{shown}\ngot\n{output}"
    return count


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder of the tutorials."""
    return shutil.copytree(TUTORIAL, tmp_path / "tutorial")


@pytest.mark.thorough
def test_systolic_array(folder: Path) -> None:
    assert check((TUTORIAL / "systolic-array.md").read_text(), folder) == 2
    assert (folder / "systolic_array.vcd").stat().st_size


def test_cycles_of_the_waveform(folder: Path) -> None:
    """A row of the table is the state before an edge: of cycle n at n + 0.5 µs."""
    run("python systolic_array.py", folder)
    lines = (folder / "systolic_array.vcd").read_text().splitlines()
    (clock,) = {line.split()[3] for line in lines if re.match(r"\$var wire 1 \S+ clk ", line)}
    time, edges = 0, []
    for line in lines:
        time = int(line[1:]) if line.startswith("#") else time
        if line == f"1{clock}":
            edges.append(time)
    assert "$timescale 1 fs $end" in lines
    assert edges == [cycle * 10**9 + 10**9 // 2 for cycle in range(19)]


def test_wide_numbers_keep_the_columns(folder: Path) -> None:
    script = folder / "systolic_array.py"
    script.write_text(script.read_text().replace("[-3, -2, -1, 1, 2, 3]", "[-100, 7, 127]"))
    *cycles, end = run("python systolic_array.py", folder).split("cycle ")[1:]
    assert "0 of 16 differ" in end and any("-12700" in cycle for cycle in cycles)
    lines = [line for cycle in cycles for line in cycle.splitlines()[1:6]]
    assert len(lines) == 5 * 18
    assert len({tuple(n for n, c in enumerate(line) if c == "|") for line in lines}) == 1


def test_assembly(folder: Path, verilator: None) -> None:
    assert check((TUTORIAL / "assembly.md").read_text(), folder) == 18


#: Numbers of the exercise with eight results, as its item of the page has them.
EIGHT = """
import numpy as np
from assembly_data import BIAS, parameters
x, w = np.load("x.npy"), np.load("w.npy")
np.save("w.npy", [w, w.T])
np.save("params.npy", parameters(np.concatenate([BIAS, -BIAS])))
sums = x.astype(int) @ np.hstack([w, w.T]) + np.concatenate([BIAS, -BIAS])
np.save("wanted.npy", np.clip(sums, -128, 127))
"""
SAME = "import numpy as n; print((n.load('y.npy').reshape(4, 8) == n.load('wanted.npy')).all())"


@pytest.mark.thorough
def test_exercises_of_assembly(folder: Path) -> None:
    run("python assembly_data.py", folder)
    program = (folder / "dense.s").read_text()

    def result(text: str, count: int) -> None:
        (folder / "changed.s").write_text(text)
        run("celosia assemble changed.s -o changed.bin --check nano", folder)
        memory = "--memory 0=x.npy --memory 0x100=w.npy --memory 0x200=params.npy"
        options = f"--preset nano --device machine {memory} --dump 0x300:{count}=y.npy"
        run(f"celosia run changed.bin {options}", folder)

    result(program.replace("source=ACC", "low=0 source=ACC"), 16)
    assert "0 of 16 differ" in run("python assembly_data.py y.npy --low 0", folder)
    assert "5 of 16 differ" in run("python assembly_data.py y.npy", folder)

    run(f"python -c '{EIGHT}'", folder)
    lines = {line.split()[0]: line for line in program.splitlines()}
    lines["LOAD_WEIGHTS"] += " tiles=2"
    lines["LOAD_PARAMS"] = lines["LOAD_PARAMS"].replace("count=4", "count=8")
    matmul = lines["MATMUL"].replace(" post=3", "")
    lines["MATMUL"] = f"{matmul}\n{matmul.replace('wait=0+1', '')} tile=1 accumulator=4 post=3"
    wide = lines["VECTOR"].replace("x_stride=4", "x_stride=8")
    first, second = wide.replace(" post=4", ""), wide.replace("destination_base=64", "")
    second = second.replace("wait=2+3", "source_base=4 params=4 destination_base=68")
    lines["VECTOR"] = f"{first}\n{second}"
    lines["STORE"] = lines["STORE"].replace("length=16", "length=32")
    result("\n".join(lines.values()), 32)
    assert run(f'python -c "{SAME}"', folder) == "True\n"


@pytest.mark.skipif(" " in sys.prefix, reason="makefiles of cocotb: no blank in their path")
@pytest.mark.parametrize(
    ("end", "commands"),
    [("## A network", 5), pytest.param("## In hardware", 9, marks=pytest.mark.slow)],
)
def test_soc(folder: Path, end: str, commands: int, icarus: None, monkeypatch) -> None:
    """As cocotb calls Icarus, with ``-g2012``; the product also with ``-g2005``: a later one wins.

    The settings of pytest are there, and a package with a plugin of pytest that warns.
    """
    shutil.copy(ROOT / "pyproject.toml", folder.parent)
    metadata = folder.parent / "noisy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\nnoisy = noisy\n")
    (folder.parent / "noisy.py").write_text("import warnings\nwarnings.warn('noise')\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    page, heading, _ = (TUTORIAL / "soc.md").read_text().partition(f"\n{end}\n")
    assert heading and check(page, folder / "soc") == commands
    monkeypatch.setenv("COMPILE_ARGS", "-g2005")
    shutil.rmtree(folder / "soc" / "sim_build")
    product = page[page.index("$ make") :].partition("\n## A network\n")[0]
    assert check(f"```console\n{product}", folder / "soc") == 1


def test_first_network(folder: Path, verilator: None) -> None:
    """Without TensorFlow: from the quantised model on."""
    _, heading, rest = (TUTORIAL / "first-network.md").read_text().partition("## The plan of")
    assert heading and check(rest, folder) == 7


@pytest.mark.slow
def test_first_network_from_keras(folder: Path, verilator: None) -> None:
    prerequisites.package("tensorflow")
    (folder / "digits.tflite").unlink()
    assert check((TUTORIAL / "first-network.md").read_text(), folder) == 10


def test_pixel_and_weight(folder: Path) -> None:
    assert check((TUTORIAL / "pixel-and-weight.md").read_text(), folder) == 1


def test_the_checks_find_mistakes(tmp_path: Path) -> None:
    assert check("```console\n$ echo a b\na ...\n$ true\n```\n", tmp_path) == 2
    for wrong in (
        "```console\n$ echo a\nb\n```\n",
        "```console\n$ echo a\n```\n",
        "```console\n$ echo a; false\na\n```\n",
        "```console\n$ echo celosia: a\ncelosia: a\n```\n",
        "```console\n$ echo a\na\n```\n\n```text\nb\n```\n",
    ):
        with pytest.raises(AssertionError):
            check(wrong, tmp_path)


def test_pictures_are_up_to_date(tmp_path: Path) -> None:
    run(f"python pictures.py {tmp_path}", TUTORIAL)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text() for path in (TUTORIAL / "pictures").iterdir()}
    assert drawn == kept, "make pictures"
    pages = "".join(page.read_text() for page in TUTORIAL.glob("*.md"))
    shown = re.findall(r"!\[([^]]+)\]\(pictures/([^)]+)\)", pages)
    assert {name for _, name in shown} == set(kept)


@pytest.mark.thorough
def test_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    nbformat, nbclient = (prerequisites.package(name) for name in ("nbformat", "nbclient"))
    notebook = nbformat.read(folder / "systolic-array.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    client = nbclient.NotebookClient(notebook, timeout=LIMIT, kernel_name="python3")
    client.execute(cwd=str(folder))
    assert "0 of 16 differ from NumPy" in code[-1].outputs[0].text
