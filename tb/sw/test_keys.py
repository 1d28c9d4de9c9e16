"""Names of what is kept between runs: whatever changes results changes the name."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.verilog import build
from celosia.sim.rtl import core as rtl
from celosia.sim.rtl.counting import counting
from celosia.sw.cli import fuzz, main, report
from celosia.sw.runtime import shards


class Spread(Exception):
    """Raised where shards would be done."""


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], tuple[int, bytes]]:
    """Number of shards of a command, and the key of their results."""
    found = []

    def spread(job: Any, parts: Any, workers: Any, *, key: bytes = b"") -> Any:
        found.append((len(parts), key))
        raise Spread

    for module in (fuzz, report, shards):
        monkeypatch.setattr(module, "spread", spread)
    monkeypatch.setattr(rtl, "model", lambda *arguments, **options: None)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name, count in (("x", 6), ("other", 6), ("more", 5)):
        np.save(f"{name}.npy", rng.integers(-128, 128, (count, 784)).astype(np.int8))

    def run(command: str) -> tuple[int, bytes]:
        with pytest.raises(Spread):
            main(command.split())
        return found.pop()

    return run


RUN = "run mnist_mlp --input x.npy --preset nano --batch 2 --output y.npy"
REPORT = "report mnist_mlp --measure --preset nano"
FUZZ = "fuzz --programs 40 --configurations odd,wide"
CHANGES = {
    RUN: (
        ("--input x.npy", "--input other.npy"),
        ("--input x.npy", "--input more.npy"),
        ("--batch 2", "--batch 3"),
        ("--preset nano", "--preset micro"),
        ("--preset nano", "--preset nano,lanes=2"),
        ("--preset nano", "--preset nano --device machine"),
        ("--preset nano", "--preset nano --latency 33"),
        ("--preset nano", "--preset nano --bandwidth 0.5"),
        ("--preset nano", "--preset nano --cores 2"),
        ("--preset nano", "--preset nano --cores 2 --ports 2"),
    ),
    REPORT: (
        ("mnist_mlp", "mnist_cnn_3x3"),
        ("mnist_mlp", "mnist_mlp mnist_cnn_3x3"),
        ("--preset nano", "--preset micro"),
        ("--preset nano", "--preset nano --latency 33"),
        ("--preset nano", "--preset nano --bandwidth 0.5"),
        ("--preset nano", "--preset nano --batch 2"),
    ),
    FUZZ: (
        ("--programs 40", "--programs 39"),
        ("odd,wide", "wide,odd"),
        ("odd,wide", "odd,wide --seed 1"),
        ("odd,wide", "odd,wide --faults"),
        ("odd,wide", "odd,wide --protection parity"),
        ("odd,wide", "odd,wide --requantizer sequential"),
        ("--configurations odd,wide", "--draw 2"),
    ),
}


@pytest.mark.parametrize("command", CHANGES)
def test_commands(command: str, key: Callable[[str], tuple[int, bytes]]) -> None:
    """Options that change results change the key; workers, and names of files, do not."""
    keys = [key(command), *(key(command.replace(*change)) for change in CHANGES[command])]
    assert len(set(keys)) == len(keys)
    assert all(name for _, name in keys)
    same = f"{command} --workers 3 --resume".replace("y.npy", "z.npy")
    assert key(same) == keys[0]


def test_models_of_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verilator: None) -> None:
    """Sizes, kind of the model, and a netlist's contents: another file for each; not for names."""
    monkeypatch.setattr(rtl, "once", lambda target, make: None)
    nano = preset("nano")
    netlist, other = tmp_path / "a.v", tmp_path / "b.v"
    netlist.write_text("module celosia; endmodule\n")
    other.write_text("module celosia; wire a; endmodule\n")
    pods = [PodConfig(nano, cores=2), PodConfig(nano, cores=4), PodConfig(nano, cores=4, ports=2)]
    models = [
        rtl.model(nano),
        rtl.model(preset("nano,lanes=2")),
        rtl.model(preset("nano,protection=parity")),
        rtl.model(preset("nano,unified_bytes=8192")),
        rtl.model(nano, arrays=True),
        rtl.model(nano, netlist),
        rtl.model(nano, other),
        *(rtl.model(nano, pod=pod) for pod in pods),
    ]
    for toggles in (False, True):
        with counting(toggles=toggles):
            models.append(rtl.model(nano))
    assert len(set(models)) == len(models)
    assert rtl.model(replace(nano, name="another")) == models[0]
    other.write_text(netlist.read_text())
    assert rtl.model(nano, other) == rtl.model(nano, netlist)


def test_sources_of_gateware(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Contents and names of all modules, those apart from a core too if all are wanted."""
    (tmp_path / "arch").mkdir()
    for name in ("build", "arch/isa", "core", "pod"):
        (tmp_path / f"{name}.py").write_text(f"'''{name}'''\n")
    monkeypatch.setattr(build, "__file__", str(tmp_path / "build.py"))

    def digests() -> tuple[str, str]:
        build.sources_digest.cache_clear()
        return build.sources_digest(), build.sources_digest(whole=True)

    try:
        before = digests()
        changes = {"arch/isa": (True, True), "core": (True, True), "pod": (False, True)}
        for name, alters in changes.items():
            with (tmp_path / f"{name}.py").open("a") as file:
                file.write("more = 1\n")
            after = digests()
            assert tuple(a != b for a, b in zip(before, after, strict=True)) == alters, name
            before = after
        (tmp_path / "core.py").rename(tmp_path / "cores.py")
        assert all(a != b for a, b in zip(before, digests(), strict=True))
    finally:
        build.sources_digest.cache_clear()


def test_a_core_is_made_of_sources_that_count(root: Path) -> None:
    """Nothing that a core imports, directly or not, is apart from its digest."""
    seen, left = set[Path](), [root / "hw" / "core.py"]
    while left:
        path = left.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("celosia.hw"):
                package = root.joinpath(*str(node.module).split(".")[1:])
                left += [package / f"{name.name}.py" for name in node.names]
                left.append(package.with_suffix(".py"))
    relative = [path.relative_to(root / "hw") for path in seen]
    assert Path("vector/requantize.py") in relative
    assert not [path for path in relative if {path.name, path.parts[0]} & set(build._APART)]
