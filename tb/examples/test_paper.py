"""Networks of the TPU's paper: their layers, shares of cycles, the command."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.presets import preset
from celosia.hw.litex.boards import BOARDS
from celosia.sim.timing.costs import COSTS
from celosia.sw.cli import main
from celosia.sw.profile.events import Event
from celosia.sw.profile.losses import Stretch
from celosia_examples.paper import processor
from celosia_examples.paper.networks import NETWORKS, Builder, Made, build
from celosia_examples.paper.published import CLOCK_HZ, WORKLOADS
from celosia_examples.paper.shares import Shares, divided, measure, shares
from celosia_examples.paper.text import Setting, annotate

SETTING = Setting(preset("tpu_v1,elementwise_products=true"), CLOCK_HZ, 30e9)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_the_layers_and_weights_of_the_paper(name: str):
    made, paper = build(name), WORKLOADS[name]
    assert made.layers == {kind: getattr(paper, kind) for kind in made.layers}
    assert sum(made.layers.values()) == sum(paper[:4])
    assert made.weights == pytest.approx(paper.weights * 1e6, rel=0.02)


@pytest.mark.parametrize("paper", WORKLOADS.values(), ids=WORKLOADS)
def test_shares_of_the_paper_sum_to_all_cycles(paper):
    assert paper.active + paper.stall + paper.shift + paper.other == pytest.approx(100, abs=0.2)
    assert paper.useful + paper.unused == pytest.approx(paper.active, abs=0.2)


def passes(first: int, last: int, pixels: int) -> Stretch:
    """Return a pass of ``pixels`` vectors on a core whose tiles load in four cycles."""
    multiply = Instruction(Opcode.MATMUL, x_count=pixels, taps=4)
    return Stretch(first, last, "array", Event(0, 0, multiply, "matrix", 0, first, first, last))


@pytest.mark.parametrize(
    ("found", "core", "tpu"),
    [
        ([passes(0, 9, 9)], (9, 0, 0, 0), (9, 0, 0, 0)),
        ([passes(0, 4, 3)], (3, 0, 1, 0), (3, 0, 1, 0)),
        ([passes(0, 4, 3), Stretch(4, 24, "weights")], (3, 20, 1, 0), (3, 13, 4, 4)),
        ([passes(0, 4, 3), Stretch(4, 6, "weights")], (3, 2, 1, 0), (3, 0, 3, 0)),
        (
            [passes(0, 9, 9), *(Stretch(at, at + 5, "weights") for at in (9, 14))],
            (9, 10, 0, 0),
            (9, 2, 4, 4),
        ),
        ([Stretch(0, 5, "weights"), Stretch(5, 7, "vector")], (0, 5, 0, 2), (0, 5, 0, 2)),
    ],
)
def test_cycles_by_the_activity_of_the_array(found, core, tpu):
    nano = preset("nano")
    assert shares(found, nano) == Shares(*core)
    assert divided(found, nano) == Shares(*tpu)


def small(rows: int) -> Made:
    """Return two layers of whole tiles."""
    net = Builder("small")
    return Made(net.graph(net.dense(net.dense(net.input(rows), rows), rows)), net.layers, 0)


@pytest.mark.parametrize(("name", "batch"), [("nano", 1), ("micro", 20), ("edge", 40)])
def test_every_vector_is_an_active_cycle(name: str, batch: int):
    config = preset(f"{name},weight_tiles=2")
    width = 2 * config.rows
    made = small(width)
    fast = measure(made, config, batch, COSTS.bandwidth)
    slow = measure(made, config, batch, 1 / 16)
    for found in (fast, slow):
        assert sum(found.shares) == sum(found.as_tpu)
        assert found.shares.active == found.as_tpu.active == 2 * 4 * batch
        assert found.multiplications == 2 * width * width * batch
    assert slow.shares.stall > fast.shares.stall
    assert fast.tops(2e6) == pytest.approx(2 * fast.multiplications * 2e-6 / fast.cycles)


def test_mlp0_is_within_two_points_of_the_paper():
    paper = WORKLOADS["MLP0"]
    found = measure(build("MLP0"), SETTING.config, paper.batch, SETTING.bandwidth)
    wanted = (paper.active, paper.stall, paper.shift, paper.other)
    assert found.as_tpu.percent() == pytest.approx(wanted, abs=2)
    assert found.shares.percent()[0] == pytest.approx(paper.active, abs=2)
    assert found.weight_bytes == 5 * 64 << 16


def test_the_command_prints_the_table_and_draws_the_roofline(tmp_path: Path, capsys):
    output = tmp_path / "roof.png"
    assert main(["paper", "MLP1", "-o", str(output), "--memory", "34"]) == 0
    printed = capsys.readouterr().out
    assert "MLP1       168  paper    10.6    44.2    13.4    31.9     9.4     9.7\n" in printed
    assert "34 GB/s" in printed and "MLP0" not in printed
    assert output.read_bytes().startswith(b"\x89PNG")


def test_names_of_the_roofline_do_not_overlap():
    """Points as close as those of the paper's LSTMs and MLPs, and closer."""
    axes = Figure(figsize=(8, 5), dpi=110).subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(10, 10_000)
    axes.set_ylim(1, 184)
    places = [(200, 12.3), (200, 11.9), (168, 9.7), (167, 10.1), (64, 3.7), (64, 3.7), (96, 2.8)]
    points = [(f"LSTM{n}", x, y, "#22303c") for n, (x, y) in enumerate(places)]
    names = [name.get_window_extent() for name in annotate(axes, points)]
    assert not any(one.overlaps(other) for one, other in combinations(names, 2))
    for name, place in zip(names, places, strict=True):
        x, y = axes.transData.transform(place)
        assert name.padded(45).contains(x, y)


def test_a_model_beside_one_thread_of_the_cpu(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(processor, "litert_seconds", lambda content: 2e-3)
    assert main("paper --cpu mnist_mlp --batch 1 --board ulx3s-85f".split()) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["network", "CPU,", "us", "ulx3s-85f", "tpu_v1"]
    name, time, cycles, _, ratio, *_ = row.split()
    assert (name, time) == ("mnist_mlp", "2,000.0")
    # Times are of one run: cycles over clock.
    clock = BOARDS["ulx3s-85f"].clock_hz
    assert float(ratio) == pytest.approx(2e-3 * clock / int(cycles.replace(",", "")), abs=0.01)


def test_litert_takes_time(mnist_model: Path):
    assert 0 < processor.litert_seconds(mnist_model.read_bytes()) < 1


def test_without_litert_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(ModuleNotFoundError, match=r"--cpu: wanted ai-edge-litert: .*litert"):
        processor.litert_seconds(b"")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("MLP9", "paper: wanted some of MLP0, MLP1, LSTM0, LSTM1, CNN0, CNN1, got 'MLP9'"),
        ("MLP0 --memory 0", "--memory: wanted more than 0 GB/s, got 0"),
        ("MLP0 --cpu mnist_cnn_5x5", "--cpu: wanted no NETWORK beside it"),
        ("--cpu mnist_cnn_5x5 --board toaster", "board: wanted one of "),
        ("--cpu gone.tflite", "gone.tflite: no such file"),
    ],
)
def test_bad_input(command: str, message: str, refused):
    assert message in refused(f"paper {command}")


def test_weights_are_the_same_each_time():
    first, second = (build("MLP1").graph.tensors[1].data for _ in range(2))
    assert first is not None and second is not None and np.array_equal(first, second)
