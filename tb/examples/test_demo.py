import io

import numpy as np
import pytest
from matplotlib.image import imread

from celosia.hw.arch.isa import Unit
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.emit.synchronise import SEMAPHORE
from celosia.sw.data import Half
from celosia.sw.driver.core import RunResult
from celosia.sw.ir.program import Program
from celosia.sw.runtime.activity import by_cause
from celosia.sw.runtime.session import Statistics
from celosia_examples.digits import demo

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def digits(mnist: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find", lambda name: Half(*mnist))


def test_demo_on_the_machine_model(digits, tmp_path, capsys) -> None:
    output = tmp_path / "digits.png"
    made = demo.demo(output, config=preset("nano"), images=40, batch=16, device="machine")
    assert made.inputs == 40
    printed = capsys.readouterr().out
    assert "of 40 digits" in printed
    assert "the same from machine and from the machine model" in printed
    assert output.read_bytes().startswith(PNG)


def test_demo_on_several_cores(digits, tmp_path, capsys) -> None:
    sizes = {"config": preset("nano"), "images": 40, "cores": 4, "device": "machine"}
    made = demo.demo(tmp_path / "digits.png", **sizes)
    assert (made.cores, made.inputs, made.program.batch) == (4, 40, 10)
    assert "4 x nano, 4 x 4 multipliers" in capsys.readouterr().out


def test_semaphores_are_named_by_who_is_waited_for() -> None:
    first, second = SEMAPHORE[Unit.MATRIX, Unit.VECTOR], SEMAPHORE[Unit.STORE, Unit.VECTOR]
    counters = {"vector": {"busy": 5, f"semaphore_{first}": 3, f"semaphore_{second}": 2}}
    assert by_cause(counters) == {"vector": {"busy": 5, "wait matrix": 3, "wait store": 2}}


def test_the_sequencer_s_drain_is_a_full_queue() -> None:
    counters = {"sequencer": {"drain": 4, "busy": 1}, "load": {"drain": 2}}
    assert by_cause(counters) == {"sequencer": {"queue": 4, "busy": 1}, "load": {"drain": 2}}
    assert demo.CLASSES["queue"][0] == "queue full, or a fence"


def test_every_class_of_a_counter_is_drawn(mnist, mnist_model) -> None:
    from celosia.hw.arch.registers import activity_names
    from celosia.sw.compiler.compile import compile_graph
    from celosia.sw.frontend.tflite import load

    used = {f"semaphore_{number}" for number in SEMAPHORE.values()}
    names = [n for n in activity_names().values() if n in used or not n.startswith("semaphore")]
    program: Program = compile_graph(load(mnist_model), preset("edge"), 4)
    statistics = Statistics(program)
    counted = {unit: dict.fromkeys(names, 1) for unit in ("sequencer", "matrix")}
    statistics.add(RunResult(len(names), counted), 2, 0.1)
    drawn = by_cause(statistics.counters or {})
    assert set(drawn["sequencer"]) | set(drawn["matrix"]) == set(demo.CLASSES)
    pictures, labels = mnist
    picture = demo.draw(pictures[:2], labels[:2], (labels[:2] + 1) % 10, statistics, 0.0)
    assert picture.startswith(PNG)
    pixels = imread(io.BytesIO(picture))[..., :3]
    assert (pixels[:, :8] == 1).all() and (pixels[:, -8:] == 1).all(), "the legend is cut off"
