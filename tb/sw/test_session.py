from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import prerequisites
import pytest
from networks import FullyConnected, Quantize, write_fully_connected, write_sequential

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program, ProgramError
from celosia.sw.runtime.arrays import OWN_RANGE, clipped, quantized
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.interpreter import InferenceSession, Interpreter
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.pods import Cores
from celosia.sw.runtime.session import InputError, Session

PORT = Port(name="x", shape=(2, 3), items=1, scale=0.5, zero_point=-3, address=0)


@pytest.fixture(scope="module")
def model() -> bytes:
    rng = np.random.default_rng(5)
    layers = [
        FullyConnected(
            weights=rng.integers(-127, 128, shape).astype(np.int8),
            weight_scale=0.01,
            output_scale=0.6,
            output_zero_point=7,
        )
        for shape in ((20, 12), (4, 20))
    ]
    return write_fully_connected(layers, input_scale=0.1, input_zero_point=-5)


@pytest.fixture
def program(model: bytes) -> Program:
    return compile_graph(load(model), preset("nano"), 4)


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-128, 128, (11, 12)).astype(np.int8)


class Scripted:
    """A device that ends every run as planned and remembers what was written."""

    def __init__(self, config: Config, *results: RunResult) -> None:
        self.config = config
        self.results = list(results)
        self.memory: dict[int, bytes] = {}
        self.ran: list[int] = []
        self.closed = False

    def write(self, address: int, data: bytes) -> None:
        self.memory[address] = data

    def read(self, address: int, count: int) -> bytes:
        return bytes(count)

    def run(self, address: int, count: int) -> RunResult:
        self.ran.append(address)
        return self.results.pop(0)

    def close(self) -> None:
        self.closed = True


def counters(busy: int) -> Mapping[str, Mapping[str, int]]:
    return {"matrix": {"busy": busy, "empty": 100 - busy}}


def test_any_number_of_inputs(program: Program, x: np.ndarray) -> None:
    with Session(program, open_device("machine", program.config, program.memory_bytes)) as session:
        (whole,) = session.run([x])
        parts = [session.run([x[n : n + 1]])[0] for n in range(len(x))]
        assert session.together > len(x)
        session.together = program.batch
        (cut,) = session.run([x])
    assert whole.shape == (11, 4) and np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(cut, whole)


def test_last_batch_is_filled_with_zero_points(program: Program, x: np.ndarray) -> None:
    device = Scripted(program.config, *[RunResult()] * 4)
    Session(program, device).run([x])
    assert device.memory[program.inputs[0].address] == x[8:].tobytes() + b"\xfb" * 12


def test_statistics(program: Program, x: np.ndarray) -> None:
    runs = [RunResult(100, counters(busy), array="twin") for busy in (10, 60, 70, 80)]
    session = Session(program, Scripted(program.config, *runs))
    session.run([x])
    printed = session.statistics.as_dict()
    assert printed["array"] == "twin"
    assert printed["setup_cycles"] == 100 and printed["cycles"] == 300 and printed["inputs"] == 11
    assert printed["cycles_per_input"] == pytest.approx(300 / 11)
    assert printed["macs"] == 11 * 320
    assert printed["utilisation"] == pytest.approx(11 * 320 / (300 * 16))
    assert printed["counters"] == {"matrix": {"busy": 210, "empty": 90}}
    assert printed["setup_counters"] == {"matrix": {"busy": 10, "empty": 90}}


def test_error_names_instruction_and_layer(program: Program, x: np.ndarray) -> None:
    place = [i.opcode for i in program.main.instructions].index(isa.Opcode.MATMUL)
    failed = RunResult(9, {}, (isa.Error.BUS, isa.Unit.LOAD, place))
    session = Session(program, Scripted(program.config, RunResult(), failed))
    wanted = rf"^BUS in LOAD: instruction {place} of main \(MATMUL .*\), layer 'output_0'$"
    with pytest.raises(DeviceError, match=wanted):
        session.run([x])


@pytest.mark.parametrize("fails", [1, 2])
def test_constants_are_loaded_anew_after_a_failure(program, x, fails) -> None:
    """Of set-up, batch, and set-up again the last two: nobody knows what they have left."""
    failed = RunResult(9, {}, (isa.Error.BUS, isa.Unit.LOAD, 0))
    results = [failed if n in (1, fails) else RunResult() for n in range(9)]
    device = Scripted(program.config, *results)
    session = Session(program, device)
    for _ in range(fails):
        with pytest.raises(DeviceError):
            session.run([x[:1]])
    session.run([x[:1]])
    sections = {program.setup.address: "setup", program.main.address: "main"}
    wanted = ["setup", "main", *["setup"] * fails, "main"]
    assert [sections[address] for address in device.ran] == wanted


@pytest.mark.parametrize("run", range(4))
def test_a_core_of_a_pod_that_fails(program, x, run, monkeypatch, capsys) -> None:
    """In the one-time load or in a batch: its batch is done again, and no output is left out."""
    with Session(program, open_device("machine", program.config, program.memory_bytes)) as session:
        (wanted,) = session.run([x[:7]])
    pod = Cores([MachineDevice(program.config, program.memory_bytes) for _ in range(2)])
    core, runs = pod.cores[1], iter(range(9))
    original = core.run

    def failing(address: int, count: int) -> RunResult:
        result = original(address, count)
        error = (isa.Error.BUS, isa.Unit.LOAD, 0) if next(runs) == run else None
        return replace(result, error=error)

    monkeypatch.setattr(core, "run", failing)
    with Session(program, pod) as session:
        for _ in range(2):
            assert np.array_equal(session.run([x[:7]])[0], wanted)
        assert session.cores == ([0] if run < 3 else [0, 1])
    assert capsys.readouterr().err.count("the others do its work") == (run < 3)


@pytest.mark.parametrize("slowest", [0, 1])
def test_cycles_of_a_pod_are_those_of_its_slowest_core(program, x, slowest, monkeypatch) -> None:
    pod = Cores([MachineDevice(program.config, program.memory_bytes) for _ in range(2)])
    for number, core in enumerate(pod.cores):
        result = RunResult(100, counters(30)) if number == slowest else RunResult(7, counters(2))
        monkeypatch.setattr(core, "run", lambda *_, result=result: result)
    with Session(program, pod) as session:
        session.run([x[:8]])
    found = session.statistics
    assert (found.setup_cycles, found.cycles) == (100, 100)
    assert found.counters == {"matrix": {"busy": 30, "empty": 70}}


def test_a_device_is_closed_when_there_is_no_session(program: Program) -> None:
    device = Scripted(program.config, RunResult(9, {}, (isa.Error.BUS, isa.Unit.LOAD, 0)))
    with pytest.raises(DeviceError):
        Session(program, device)
    assert device.closed


@pytest.mark.parametrize("name", ["machine", "rtl"])
def test_places_outside_are_refused(name: str) -> None:
    device = open_device(name, preset("nano"), 4096)
    for address, count in ((4090, 7), (-8, 4)):
        with pytest.raises(ValueError, match=f"wanted bytes below 0x1000, got {count} bytes at"):
            device.read(address, count)
        with pytest.raises(ValueError, match=f"wanted bytes below 0x1000, got {count} bytes at"):
            device.write(address, bytes(count))
    with pytest.raises(ValueError, match="wanted bytes below 0x1000, got 128 bytes at 0xfc0"):
        device.run(4096 - 64, 17)
    for count in (0, 1 << 24):
        with pytest.raises(ValueError, match=f"wanted 1 to 16777215 words, got {count}"):
            device.run(0, count)
    device.close()


def test_a_simulated_run_that_was_broken_off(program, x, monkeypatch) -> None:
    with Session(program, open_device("machine", program.config, program.memory_bytes)) as session:
        (wanted,) = session.run([x])
    device: Any = open_device("rtl", program.config, program.memory_bytes)
    with Session(program, device) as session:
        with monkeypatch.context() as patched:
            patched.setattr(device, "started", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.run([~x])
        assert np.array_equal(session.run([x])[0], wanted)


def interrupted() -> None:
    raise KeyboardInterrupt


def test_machine_reports_errors(program: Program) -> None:
    device = open_device("machine", program.config, program.memory_bytes)
    device.write(0, bytes(128))
    assert device.run(0, 1).error == (isa.Error.OPCODE, isa.Unit.SEQUENCER, 0)


def test_other_core_is_refused(program: Program) -> None:
    device = Scripted(preset("micro"))
    with pytest.raises(ProgramError, match="compiled for nano .* the core is micro"):
        Session(program, device)
    assert device.closed


def test_device_is_closed(program: Program) -> None:
    device = Scripted(program.config, RunResult())
    with Session(program, device):
        assert not device.closed
    assert device.closed


@pytest.mark.parametrize("name", ["gpu", "litex", "litex:", "serial:/dev/x", 3, None])
def test_unknown_device(name: Any) -> None:
    message = f"device: wanted one of machine, rtl, litex:SYSTEM, got {name!r}"
    with pytest.raises(DeviceError, match=message):
        open_device(name, preset("nano"), 1024)


def test_options(program: Program) -> None:
    """A misspelt one is refused; those of LiteRT and ONNX Runtime are taken, without effect."""
    InferenceSession(program.to_bytes(), providers=["CPUExecutionProvider"]).close()
    for device in ("machine", "rtl"):
        with pytest.raises(ValueError, match="latency, bandwidth, netlist, waves, got 'latancy'"):
            InferenceSession(program.to_bytes(), device=device, latancy=5)


@pytest.mark.parametrize(
    "inputs",
    [[], [np.zeros((3, 12), np.uint8)], [np.zeros((3, 13), np.int8)], [np.zeros((0, 12), np.int8)]],
)
def test_wrong_inputs(program: Program, inputs: list[np.ndarray]) -> None:
    session = Session(program, Scripted(program.config, RunResult()))
    with pytest.raises(InputError, match="wanted"):
        session.run(inputs)


@pytest.mark.parametrize(
    ("real", "wanted"),
    [(0.0, -3), (0.25, -2), (-0.25, -4), (0.24, -3), (0.75, -1), (1e9, 127), (-np.inf, -128)],
)
def test_quantized_rounds_half_away_from_zero(real: float, wanted: int) -> None:
    for dtype in (np.float32, np.float64):
        assert (quantized(np.full((2, 2, 3), real, dtype), PORT) == wanted).all()


def test_quantized_divides_as_litert(rng: np.random.Generator) -> None:
    """In single precision: quotients that are next to a half round otherwise in double."""
    scale = float(np.float32(0.1))
    halves = (np.arange(-100, 100) + 0.5) * scale
    real = np.float32(halves) + np.float32(2.0**-24) * rng.integers(-8, 9, 200).astype(np.float32)
    layer = Quantize(output_scale=scale, output_zero_point=3)
    ends = {"input_shape": (1, 200), "input_scale": 0, "input_type": "float32"}
    (right,) = prerequisites.litert_outputs(write_sequential([layer], **ends), real[None])
    port = Port(name="x", shape=(200,), items=1, scale=scale, zero_point=3, address=0)
    found = quantized(real[None], port)
    assert np.array_equal(found, right)
    ratio = real.astype(np.float64) / scale
    double = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio) + 3
    assert not np.array_equal(double[None], found)


def test_quantized_takes_rows_of_numbers_when_requested() -> None:
    row = np.arange(24, dtype=np.int8).reshape(4, 6)
    assert np.array_equal(quantized(row, PORT, flat=True), row.reshape(4, 2, 3))
    flat = replace(PORT, shape=(6,))
    assert np.array_equal(quantized(row.reshape(4, 3, 2), flat, flat=True), row)


def test_a_step_past_the_range_is_not_outside() -> None:
    # The range is -62.5 to 65.
    array = np.array([-63.1, -62.9, 0, 65.4, 65.6, 70], np.float32)
    assert clipped(array, PORT) == (0.5, -62.5, 65)


def test_quantized_takes_pixels_when_requested() -> None:
    pixels = np.array([[[0, 1, 254], [255, 128, 127]]], np.uint8)
    own = [[[-128, -127, 126], [127, 0, -1]]]
    assert np.array_equal(quantized(pixels, PORT, pixels=OWN_RANGE), own)
    real = pixels * (np.float32(6) / np.float32(255)) - np.float32(2)
    assert np.array_equal(quantized(pixels, PORT, pixels=(-2, 4)), quantized(real, PORT))
    assert quantized(pixels, replace(PORT, shape=(2, 3, 1)), pixels=OWN_RANGE).shape == (1, 2, 3, 1)
    bare = replace(PORT, dtype="float32")
    with pytest.raises(InputError, match="wanted a range of pixels") as caught:
        quantized(pixels, bare, pixels=OWN_RANGE)
    assert caught.value.hint == "--pixels=LOW:HIGH"
    assert quantized(pixels, bare, pixels=(0, 255)).tolist() == pixels.tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 2, 3), np.uint8), "wanted int8 or float, got uint8"),
        (np.zeros((4, 6), np.int8), r"wanted shape \[N, 2, 3\], got \[4, 6\]$"),
        (np.zeros((4, 3, 2), np.int8), r"got \[4, 3, 2\], the same axes in another order"),
        (np.zeros((4, 2, 3, 1), np.int8), r"wanted shape \[N, 2, 3\], got \[4, 2, 3, 1\]"),
        (np.zeros((4, 7), np.int8), r"wanted shape \[N, 2, 3\], got \[4, 7\]"),
        (np.zeros(6, np.int8), r"wanted shape \[N, 2, 3\], got \[6\]"),
        (np.zeros((0, 2, 3), np.int8), "wanted shape"),
        (np.array(3, np.int8), "wanted shape"),
        (np.full((1, 2, 3), np.nan), "wanted numbers, got NaN"),
        (np.zeros((1, 6), complex), "wanted int8 or float, got complex128"),
    ],
)
def test_quantized_refuses(array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quantized(array, PORT)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_whole_numbers_of_any_type(scale: float) -> None:
    words = replace(PORT, dtype="int32", scale=scale, zero_point=0)
    numbers = np.arange(-3, 3).reshape(1, 2, 3)
    for dtype in (np.int64, np.int16, np.float32, np.int32):
        result = quantized(numbers.astype(dtype), words)
        assert result.dtype == np.int32 and np.array_equal(result, numbers)
    for other in (numbers + (1 << 31), numbers + 0.5, np.full((1, 2, 3), np.nan)):
        with pytest.raises(InputError, match="wanted whole numbers of int32, got "):
            quantized(other, words)


def test_interpreter(model: bytes, x: np.ndarray) -> None:
    interpreter = Interpreter(model_content=model, config="nano")
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert list(source["shape"]) == [1, 12] and source["dtype"] is np.int8
    assert source["quantization"] == (pytest.approx(0.1), -5)
    with pytest.raises(RuntimeError, match="allocate_tensors"):
        interpreter.invoke()
    interpreter.resize_tensor_input(source["index"], [11, 12])
    interpreter.allocate_tensors()
    interpreter.set_tensor(source["index"], x)
    with pytest.raises(ValueError, match="tensor: wanted one of"):
        interpreter.get_tensor(result["index"])
    interpreter.invoke()
    (y,) = InferenceSession(model, config="micro", batch=4).run(None, {"input": x})
    assert np.array_equal(interpreter.get_tensor(result["index"]), y)
    # Arrays of the caller are not those of the interpreter.
    given, taken = x.copy(), interpreter.get_tensor(result["index"])
    interpreter.set_tensor(source["index"], given)
    given[:], taken[:] = ~given, ~taken
    assert np.array_equal(interpreter.get_tensor(result["index"]), y)
    interpreter.get_tensor(source["index"])[:] = 0
    interpreter.invoke()
    assert np.array_equal(interpreter.get_tensor(result["index"]), y)


def test_interpreter_refuses(model: bytes, x: np.ndarray) -> None:
    with pytest.raises(ValueError, match="wanted one of model_path and model_content"):
        Interpreter()
    interpreter = Interpreter(model_content=model, config="nano")
    interpreter.allocate_tensors()
    with pytest.raises(ValueError, match=r"wanted int8 of shape \(1, 12\)"):
        interpreter.set_tensor(0, x)
    with pytest.raises(ValueError, match="wanted 0 to 0, got 1"):
        interpreter.set_tensor(1, x)
    with pytest.raises(ValueError, match=r"wanted shape \(N, 12\)"):
        interpreter.resize_tensor_input(0, [4, 13])


def test_inference_session(program: Program, x: np.ndarray) -> None:
    session = InferenceSession(program.to_bytes())
    assert [(a.name, a.shape) for a in session.get_inputs()] == [("input", ["N", 12])]
    assert [a.name for a in session.get_outputs()] == ["output_1"]
    (y,) = session.run(["output_1"], {"input": x})
    real = (x.astype(np.float32) + 5) * np.float32(0.1)
    assert np.array_equal(session.run(None, {"input": real})[0], y)
    # As in ONNX Runtime.
    assert np.array_equal(session.run([], {"input": x})[0], y)
    assert session.statistics.inputs == 33
    with pytest.raises(InputError, match=r"inputs: wanted \['input'\], got \['other'\]"):
        session.run(None, {"other": x})
    with pytest.raises(InputError, match="outputs: wanted some of"):
        session.run(["other"], {"input": x})
