"""Cycles measured layer by layer, and those of code that several parts load again."""

from collections.abc import Callable
from typing import Any

import networks as w
import numpy as np
import pytest
from whole_networks.small import compiled, convolution

from celosia.hw.arch import isa
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Unit
from celosia.hw.arch.presets import preset
from celosia.sim.timing.cycles import estimate
from celosia.sw import measure
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import bounds
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime import backends
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session


class Counting(MachineDevice):
    """The machine model with the estimate for a clock."""

    def run(self, address: int, count: int) -> RunResult:
        code = self.read(address, count * WORD_BYTES)
        super().run(address, count)
        return RunResult(cycles=estimate(code, self.config).total)


class Forgetful(Counting):
    """A device whose outputs are not those of the model."""

    def read(self, address: int, count: int) -> bytes:
        return bytes(count) if count < 64 else super().read(address, count)


class Failing(Counting):
    """A device that stops in the second section of a program."""

    runs = 0

    def run(self, address: int, count: int) -> RunResult:
        self.runs += 1
        if self.runs == 6:
            return RunResult(error=(isa.Error.BUS, Unit.LOAD, 0))
        return super().run(address, count)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[MachineDevice]], dict[str, Any]]:
    """Puts a device in the place of the RTL; returns what it was opened with."""

    def put(kind: type[MachineDevice]) -> dict[str, Any]:
        opened: dict[str, Any] = {}

        def opening(name: str, config: Config, memory_bytes: int, **options: Any) -> MachineDevice:
            opened.update(name=name, **options)
            return kind(config, memory_bytes)

        monkeypatch.setattr(backends, "open_device", opening)
        return opened

    return put


def test_measure_adds_up_by_layer(device) -> None:
    opened = device(Counting)
    made = compiled("micro", 2)
    found = measure.measure(made, latency=32, bandwidth=1.0)
    assert opened == {"name": "rtl", "latency": 32, "bandwidth": 1.0}
    assert len(found.layers) == len(made.program.layers)
    assert all(a.estimated == a.counted > 0 for a in (*found.layers, found.whole, found.setup))
    assert sum(a.counted for a in found.layers) > found.whole.counted
    slow = measure.measure(made, latency=100, bandwidth=0.5)
    assert all(a.estimated > a.counted for a in (*slow.layers, slow.whole, slow.setup))


#: One tile of weights in the first part, five in the second.
RESIZE = w.Resize(kind="RESIZE_BILINEAR", size=(9, 9))
SEVERAL = (convolution(8, 3, 1), RESIZE, convolution(4, 3, 8))


def test_measure_of_several_parts(device) -> None:
    device(Counting)
    graph = load(w.write_sequential(SEVERAL, input_shape=(1, 14, 14, 1), input_scale=0.5))
    made = compile_steps(graph, preset("micro"), 2)
    found = measure.measure(made, latency=32, bandwidth=1.0)
    assert len(made.program.parts) == len(found.layers) == 2
    assert all(a.estimated == a.counted > 0 for a in (*found.layers, found.whole, found.setup))
    costs = [estimate(s.code, made.program.config) for s in made.program.per_batch]
    finishes = [instruction.finish for cost in costs for instruction in cost.instructions]
    table = report.rows(made.program, finishes, bounds(made), found)
    assert [row.runs_on for row in table] == ["core", "host", "core", ""]
    assert table[-1].counted_alone == sum(alone.counted for alone in found.layers)
    assert table[-1].cycles == found.whole.estimated


@pytest.mark.parametrize(("sizes", "together"), [("edge", True), ("edge,weight_tiles=5", False)])
def test_what_parts_load_again_counts(sizes: str, together: bool) -> None:
    graph = load(w.write_sequential(SEVERAL, input_shape=(1, 14, 14, 1), input_scale=0.5))
    program = compile_steps(graph, preset(sizes), 1).program
    assert bool(program.constants) == together
    costs = {s.address: estimate(s.code, program.config) for _, s in program.sections}
    finishes = [c.finish for s in program.per_batch for c in costs[s.address].instructions]
    table = report.rows(program, finishes)
    mains = sum(costs[part.mains[0].address].total for part in program.parts)
    again = table[-1].cycles - mains
    content = report.as_dict(program, table, 5, peak=0, again=again)
    assert content["reload_cycles"] == again
    assert content["cycles_estimated"] == content["total"]["cycles"] == mains + again
    weights = sum(layer.weight_bytes for layer in program.layers)
    loads = sum(i.tiles for s in program.per_batch for i in s.instructions if "tiles" in i.fields)
    assert (loads == 0) == together
    if not together:
        assert loads * program.config.tile_bytes == weights
        # Both set-ups run again for each batch, the first of them once before all.
        assert program.per_batch[0] is program.once[0] is program.parts[0].setups[0]
    with Session(program, Counting(program.config, program.memory_bytes)) as session:
        x = np.zeros((1, 14, 14, 1), np.int8)
        session.run([x])
        first = session.statistics.cycles
        session.run([x])
        assert first is not None and session.statistics.cycles is not None
        assert session.statistics.cycles - first == table[-1].cycles
        assert session.statistics.setup_cycles == sum(costs[s.address].total for s in program.once)


def test_measure_refuses_other_outputs(device) -> None:
    device(Forgetful)
    with pytest.raises(DeviceError, match="give other outputs than the model"):
        measure.measure(compiled("micro", 2))


def test_measure_names_the_layer_that_fails(device) -> None:
    device(Failing)
    with pytest.raises(DeviceError, match=r"BUS in LOAD: layer 'output_\d' alone, "):
        measure.measure(compiled("micro", 2))
