"""Pods of two cores: the bytes of one core, and what happens when a core fails."""

from typing import Any

import numpy as np
import pytest

from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import Control, Status
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.source import load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.backends import open_pod
from celosia.sw.runtime.interpreter import Interpreter
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session
from celosia.sw.shipped import model_path

COUNT = 11


@pytest.fixture(scope="module")
def program() -> Program:
    # A core of whose pod other tests train.
    return compile_graph(
        load(model_path("mnist_mlp")), preset("nano,weight_tiles=1024,activation_weights=true"), 2
    )


@pytest.fixture
def x(program: Program, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-128, 128, (COUNT, *program.inputs[0].shape)).astype(np.int8)


@pytest.fixture
def wanted(program: Program, x: np.ndarray) -> np.ndarray:
    with open_session(program) as session:
        (found,) = session.run([x])
    return found


@pytest.fixture
def pod(program: Program, verilator: None) -> Any:
    return open_pod("rtl", PodConfig(program.config, cores=2), program.memory_bytes)


def test_machine_models(program: Program, x: np.ndarray, wanted: np.ndarray) -> None:
    with open_session(program, cores=4) as session:
        np.testing.assert_array_equal(session.run([x])[0], wanted)


def test_interpreter(program: Program, x: np.ndarray, wanted: np.ndarray) -> None:
    """It compiles a batch that all its cores divide."""
    interpreter = Interpreter(model_path("mnist_mlp"), config="nano", cores=4)
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), wanted)
    assert interpreter.statistics.as_dict()["batch"] == -(-COUNT // 4)
    interpreter.close()


def test_two_cores_take_half_as_long(
    program: Program, x: np.ndarray, wanted: np.ndarray, pod: Any
) -> None:
    with Session(program, pod) as session:
        np.testing.assert_array_equal(session.run([x])[0], wanted)
        both = session.statistics
    with open_session(program, device="rtl") as session:
        session.run([x])
        one = session.statistics
    assert one.cycles is not None and both.cycles is not None and both.inputs == COUNT
    # Six batches in three rounds; both read the same memory.
    assert 0.5 * one.cycles <= both.cycles < 0.6 * one.cycles


def stop(core: Any, first: int) -> None:
    """Let a core stop in the middle of its runs from one on."""
    runs = iter(range(1000))

    def broken() -> None:
        if next(runs) >= first:
            for _ in range(100):
                assert Status.BUSY in core.status()
            core.set_register("control", Control.RESET.value)

    core.started, core.cycles_limit = broken, 1 << 16


@pytest.mark.parametrize("first", [0, 2])
def test_a_core_that_stops(
    first: int, program: Program, x: np.ndarray, wanted: np.ndarray, pod: Any, capfd: Any
) -> None:
    """Stopped in the one-time load, or in a batch: nothing is lost, the other core does it all."""
    stop(pod.cores[1], first)
    with Session(program, pod) as session:
        np.testing.assert_array_equal(session.run([x])[0], wanted)
        np.testing.assert_array_equal(session.run([x[:3]])[0], wanted[:3])
        assert session.cores == [0]
    printed = capfd.readouterr().err
    assert "core 1: rtl: run: wanted an end within 65536 cycles, got none" in printed
    assert printed.count("the others do its work") == 1


def test_no_core_is_left(program: Program, x: np.ndarray, pod: Any) -> None:
    with Session(program, pod) as session:
        for core in pod.cores:
            stop(core, 0)
        with pytest.raises(DeviceError, match="core 0: rtl: run: wanted an end within"):
            session.run([x])


def test_an_error_names_its_core(
    program: Program, x: np.ndarray, wanted: np.ndarray, pod: Any, capfd: Any
) -> None:
    """A core that finds itself without progress."""
    with Session(program, pod) as session:
        pod.cores[1].set_register("watchdog", 10)
        np.testing.assert_array_equal(session.run([x])[0], wanted)
    assert "core 1: WATCHDOG in " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        ("board", {}, "device: wanted one of machine, rtl, litex:SYSTEM, got 'board'"),
        ("rtl", {"netlist": "a.v"}, "netlist: wanted one core, got 2"),
    ],
)
def test_other_devices(
    device: str, options: dict[str, Any], message: str, program: Program
) -> None:
    with pytest.raises(DeviceError, match=message):
        open_session(program, device=device, cores=2, **options)
