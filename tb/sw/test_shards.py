"""A program on shards of its inputs: bytes and costs of one session, however they are divided."""

from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import pytest
from whole_networks.small import convolution

from celosia.hw.arch.presets import preset
from celosia.sw.cli import main
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.core import RunResult
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime import session as sessions
from celosia.sw.runtime import shards
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session
from celosia.sw.runtime.shards import Runner, run_on_workers
from celosia.sw.runtime.statistics import Statistics
from celosia.sw.workers.spread import Workers

#: Samples that go through all steps together, of 19; batches of 2.
TOGETHER, SAMPLES = 8, 19


def made(parts: int, weight_tiles: int) -> Program:
    """Return a program of one part or two; with few tiles of weights, parts load them in turn."""
    layers: list[Any] = [convolution(8, 3, 1)]
    if parts == 2:
        layers += [w.Resize(kind="RESIZE_BILINEAR", size=(9, 9)), convolution(4, 3, 8)]
    content = w.write_sequential(layers, input_shape=(1, 14, 14, 1), input_scale=0.5)
    program = compile_graph(load(content), preset(f"edge,weight_tiles={weight_tiles}"), 2)
    assert len(program.parts) == parts
    assert bool(program.constants) == (parts == 2 and weight_tiles == 64)
    return program


@pytest.fixture(params=[(1, 64), (2, 64), (2, 5)], ids=str)
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program, on a machine model that counts a cycle for each word."""
    run = MachineDevice.run

    def counted(device: MachineDevice, address: int, count: int) -> RunResult:
        run(device, address, count)
        return RunResult(count, {"load": {"busy": count}})

    monkeypatch.setattr(MachineDevice, "run", counted)
    monkeypatch.setattr(sessions, "_MOST_SAMPLES", TOGETHER)
    return made(*request.param)


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-128, 128, (SAMPLES, 14, 14, 1)).astype(np.int8)


def timeless(statistics: Statistics) -> dict[str, Any]:
    """Return statistics without the times of this machine."""
    fields = statistics.as_dict()
    return fields | {"seconds": 0, "host": fields["host"] | {"seconds": 0}}


def alone(program: Program, x: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    with Session(program, MachineDevice(program.config, program.memory_bytes)) as session:
        return session.run([x])[0], timeless(session.statistics)


@pytest.mark.parametrize("most", [1, 3, 256])
def test_one_process_gives_the_costs_of_a_session(program, x, most, monkeypatch) -> None:
    monkeypatch.setattr(shards, "_SHARDS", most)
    wanted, costs = alone(program, x)
    (outputs,), found = run_on_workers(program, "machine", {}, [x], Workers())
    assert found.seconds > 0 and timeless(found) == costs
    assert np.array_equal(outputs, wanted)


@pytest.mark.parametrize("fresh", [False, True])
def test_costs_do_not_depend_on_earlier_shards(program, x, fresh, rng) -> None:
    wanted, costs = alone(program, x)
    divided = shards._shards(program, SAMPLES, [x])
    assert [shard.first for shard in divided] == list(range(0, SAMPLES, 2))
    runner = Runner(program, "machine", {})
    cycles = 0
    for n in [*rng.permutation(len(divided)), 0, 4]:
        result = (Runner(program, "machine", {}) if fresh else runner)(divided[n])
        assert result.setup.cycles == costs["setup_cycles"]
        first = divided[n].first
        assert np.array_equal(result.outputs[0], wanted[first : first + 2])
        cycles += result.costs.cycles or 0
    twice = sum(runner(divided[n]).costs.cycles or 0 for n in (0, 4))
    assert cycles - twice == costs["cycles"]


@pytest.mark.thorough
def test_a_command_goes_on(tmp_path: Path, monkeypatch, capsys, rng: np.random.Generator) -> None:
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", rng.integers(-128, 128, (9, 784)).astype(np.int8))
    run = "run mnist_mlp --input x.npy --device machine --preset nano --batch 2 --output"
    assert main(f"{run} whole.npy".split()) == 0
    call = Runner.__call__

    def interrupted(runner: Runner, shard: shards.Shard) -> shards.ShardResult:
        if shard.first == 4:
            raise KeyboardInterrupt
        return call(runner, shard)

    monkeypatch.setattr(Runner, "__call__", interrupted)
    capsys.readouterr()
    assert main(f"{run} y.npy".split()) == 130 and not Path("y.npy").exists()
    assert capsys.readouterr().err == "celosia: interrupted: 2 of 5 shards are kept (--resume)\n"
    monkeypatch.setattr(Runner, "__call__", call)
    assert main(f"{run} y.npy --resume --workers 2".split()) == 0
    assert "resume: 2 of 5 shards are kept\n" in capsys.readouterr().err
    assert Path("y.npy").read_bytes() == Path("whole.npy").read_bytes()


@pytest.mark.thorough
def test_a_command_with_other_inputs_starts_anew(tmp_path: Path, monkeypatch, capsys, rng) -> None:
    """Of the same shape, under the same names."""
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    call, first = Runner.__call__, rng.integers(-128, 128, (9, 784)).astype(np.int8)

    def interrupted(runner: Runner, shard: shards.Shard) -> shards.ShardResult:
        if shard.first == 6:
            raise KeyboardInterrupt
        return call(runner, shard)

    run = "run mnist_mlp --input x.npy --device machine --preset nano --batch 2 --output"
    np.save("x.npy", first)
    with monkeypatch.context() as patched:
        patched.setattr(Runner, "__call__", interrupted)
        assert main(f"{run} y.npy".split()) == 130
    second = first.copy()
    second[0] ^= 1
    np.save("x.npy", second[:, ::-1])
    capsys.readouterr()
    assert main(f"{run} y.npy --resume".split()) == 0
    assert "resume: 0 of 5 shards are kept\n" in capsys.readouterr().err
    assert main(f"{run} right.npy".split()) == 0
    assert Path("y.npy").read_bytes() == Path("right.npy").read_bytes()
