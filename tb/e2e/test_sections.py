"""Programs of more instructions than the core numbers: several sections, one after the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import pytest
from all_options import NANO_WITH_ALL, OPTIONS
from conformance import differences
from litert import interpreter, invoked
from random_networks.cases import FAMILY, case

from celosia.hw.arch import isa
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import MOST_INSTRUCTIONS
from celosia.sim.timing.cycles import estimate
from celosia.sw.cli import main
from celosia.sw.compiler import compile as passes
from celosia.sw.compiler import compiled
from celosia.sw.compiler.compile import compile_graph, compile_steps, compile_up_to
from celosia.sw.compiler.compiled import layer_sections
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program
from celosia.sw.layers.errors import CompileError, LengthError
from celosia.sw.measure import measure
from celosia.sw.profile.estimates import estimates
from celosia.sw.profile.events import events
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.opening import open_session
from celosia.sw.runtime.session import Session

MOST = 6
SMALL = preset("nano,weight_tiles=2,accumulator_depth=4,unified_bytes=2048")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a section have few instructions."""
    monkeypatch.setattr(compiled, "MOST_INSTRUCTIONS", MOST)


def dense(rng: np.random.Generator, *widths: int) -> bytes:
    """Return fully connected layers of so many channels."""
    layers = [
        w.FullyConnected(
            weights=rng.integers(-127, 128, shape).astype(np.int8),
            weight_scale=0.005,
            output_scale=0.5,
        )
        for shape in zip(widths[1:], widths, strict=False)
    ]
    return w.write_fully_connected(layers, input_scale=0.5)


def samples(rng: np.random.Generator, program: Program, count: int) -> np.ndarray:
    return rng.integers(-128, 128, (count, *program.inputs[0].shape)).astype(np.int8)


def reference(content: bytes, x: np.ndarray) -> np.ndarray:
    """Return LiteRT's outputs of samples."""
    (y,) = invoked(interpreter(content), x[:, None])
    return y.reshape(len(x), -1)


@pytest.mark.usefixtures("litert", "short")
@pytest.mark.parametrize("first", [0, FAMILY, 4 * FAMILY, 9 * FAMILY, 10 * FAMILY])
def test_random_networks_in_short_sections(first: int) -> None:
    counts = []
    for seed in range(first, first + 4):
        one, config = case(seed), preset(("nano", "micro", "edge")[seed % 3] + OPTIONS)
        assert differences(one, config, "machine") == "", seed
        program = compile_graph(load(one.content), config, one.batch)
        counts += [len(part.mains) for part in program.parts]
        assert all(section.count <= MOST for _, section in program.sections)
        assert len(dict(program.sections)) == len(program.sections)
        assert Program.from_bytes(program.to_bytes()) == program
    assert max(counts) > 3


@pytest.mark.usefixtures("litert", "short", "verilator")
def test_random_networks_in_short_sections_on_the_rtl() -> None:
    for seed in (*range(10 * FAMILY, 10 * FAMILY + 4), 3, 4):
        assert differences(case(seed), preset(NANO_WITH_ALL), "rtl") == "", seed


@pytest.mark.usefixtures("short", "verilator")
def test_cycles_of_sections_are_counted(rng: np.random.Generator) -> None:
    made = compile_steps(load(dense(rng, 24, 20, 12)), preset("nano"), 2)
    (part,) = made.program.parts
    assert len(part.mains) > 3
    found = measure(made, progress=False)
    assert abs(found.whole.estimated / found.whole.counted - 1) < 0.03
    assert len(layer_sections(made)) > len(made.program.layers)


@pytest.mark.usefixtures("short")
def test_figures_of_sections(rng: np.random.Generator) -> None:
    """Each instruction counts once, and for its layer; HALT of a section for the layer before."""
    made = compile_steps(load(dense(rng, 24, 20, 12)), SMALL, 2)
    program, found = made.program, estimates(made)
    (part,) = program.parts
    assert program.per_batch == part.mains and program.once == part.setups
    total = sum(estimate(s.code, program.config).total for s in part.mains)
    assert found.rows[-1].cycles == sum(row.cycles for row in found.rows[:-1]) == total
    steps = [event.instruction for event in events(found)]
    work = [i for i in steps if i.opcode is not isa.Opcode.HALT]
    assert len(work) == len(made.parts[0].steps) == len(steps) - len(part.mains)
    spans = list(found.spans())
    assert [one.last for one in spans[:-1]] == [one.first for one in spans[1:]]
    assert sorted({one.layer for one in spans}) == [0, 1]
    only = [{*s.layers} - {-1} for s in part.mains]
    assert {0} in only and {1} in only
    layers: list[set[int]] = [set() for _ in only]
    for one in spans:
        layers[one.section].add(one.layer)
    assert layers == only


class Broken(MachineDevice):
    """The machine model, which breaks down in the section at an address."""

    broken = -1

    def run(self, address: int, count: int) -> RunResult:
        result = super().run(address, count)
        if address == self.broken:
            return RunResult(9, {}, (isa.Error.BUS, isa.Unit.LOAD, 2))
        return result


@pytest.mark.usefixtures("short")
def test_an_error_names_section_and_layer(rng: np.random.Generator) -> None:
    program = compile_graph(load(dense(rng, 24, 20, 12)), SMALL, 2)
    x = samples(rng, program, 2)
    with Session(program, device := Broken(program.config, program.memory_bytes)) as session:
        (known,) = session.run([x])
        mains = program.parts[0].mains
        for number in (1, len(mains) - 1):
            section, device.broken = mains[number], mains[number].address
            layer = program.label(section.layers[2])
            where = rf"instruction 2 of section {number} of main \(.*\), layer '{layer}'$"
            with pytest.raises(DeviceError, match=f"^BUS in LOAD: {where}"):
                session.run([x])
        device.broken = -1
        np.testing.assert_array_equal(session.run([x])[0], known)


@pytest.fixture
def long(rng: np.random.Generator) -> bytes:
    """A network of more instructions than a section can have, on ``SMALL``."""
    return dense(rng, 512, 660, 320)


@pytest.mark.thorough
def test_more_than_65535_instructions(
    long: bytes, rng: np.random.Generator, litert: Any, tmp_path: Path
) -> None:
    program = compile_graph(load(long), SMALL, 1)
    (part,) = program.parts
    counts = [section.count for section in part.mains]
    assert counts[0] == MOST_INSTRUCTIONS and len(counts) > 1
    program.save(tmp_path / "long.celosia")
    assert Program.load(tmp_path / "long.celosia") == program
    x = samples(rng, program, 2)
    with open_session(program, device="machine") as session:
        (y,) = session.run([x])
    np.testing.assert_array_equal(y, reference(long, x))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("verilator", "litert")
def test_more_than_65535_instructions_on_the_rtl(long: bytes, rng: np.random.Generator) -> None:
    program = compile_graph(load(long), SMALL, 1)
    x = samples(rng, program, 1)
    with open_session(program, device="rtl") as session:
        (y,) = session.run([x])
        cycles = session.statistics.cycles
    np.testing.assert_array_equal(y, reference(long, x))
    assert cycles
    wanted = sum(estimate(section.code, SMALL).total for section in program.per_batch)
    assert abs(wanted / cycles - 1) < 0.03


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Sets the limits of a program whose batch is chosen, and of any program."""

    def set_to(chosen: int, any_: int) -> None:
        monkeypatch.setattr(passes, "MOST_INSTRUCTIONS", chosen)
        monkeypatch.setattr(passes.policy, "PART_INSTRUCTIONS", any_)

    return set_to


def longest(program: Program) -> int:
    """Return the instructions of the longest part, without HALT."""
    return max(sum(s.count - 1 for s in part.mains) for part in program.parts)


@pytest.mark.parametrize("name", ["mnist_mlp", "mnist_cnn_3x3", "mnist_cnn_deep"])
def test_a_smaller_batch_is_chosen(name: str, root: Path, limits: Callable[..., None]) -> None:
    graph, config = load(root / "sw" / "models" / f"{name}.tflite"), preset("edge")
    one = longest(compile_graph(graph, config))
    for most in (one + 1, 3 * one, 9 * one, 1 << 20):
        limits(most, 1 << 20)
        program = compile_up_to(graph, config, 12)
        assert longest(program) < most
        if program.batch < 12:
            assert longest(compile_graph(graph, config, program.batch + 2)) >= most
    limits(one, one)
    assert compile_up_to(graph, config, 12).batch == 1


@pytest.mark.parametrize("name", ["mnist_mlp", "mnist_cnn_3x3", "mnist_cnn_deep"])
def test_the_batch_of_the_message_fits(name: str, root: Path, limits: Callable[..., None]) -> None:
    graph, config = load(root / "sw" / "models" / f"{name}.tflite"), preset("micro")
    one = longest(compile_graph(graph, config))
    for most in (one, 4 * one):
        limits(1 << 20, most)
        with pytest.raises(LengthError, match=f"at most {most} instructions, got .* or more") as no:
            compile_graph(graph, config, 4096)
        assert no.value.layer == "network"
        batch = int(no.value.hint.removeprefix("a batch of ").removesuffix(" takes fewer"))
        assert longest(compile_graph(graph, config, batch)) <= most
    limits(1 << 20, one - 1)
    with pytest.raises(CompileError, match="a core with a larger array takes fewer"):
        compile_graph(graph, config)
    compile_graph(graph, preset("edge,rows=32,columns=32"))


def test_commands_choose_a_batch(
    limits: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    limits(300, 600)
    np.save("x.npy", np.zeros((9, 28, 28, 1), np.float32))
    np.save("y.npy", np.arange(9))
    files = "--data x.npy --labels y.npy --png p.png"
    for command in (
        f"eval mnist_cnn_deep {files}",
        "run mnist_cnn_deep --input x.npy --output o.npy",
    ):
        batches = []
        for options in ("", " --batch 3", " --batch 9"):
            line = f"{command} --device machine --stats s.json"
            code = main((line + options).split())
            batches.append(json.loads(Path("s.json").read_text())["batch"] if code == 0 else code)
        assert batches == [2, 3, 2]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("litert")
def test_a_long_network_made_elsewhere(more_models: Path, rng: np.random.Generator) -> None:
    """DeepLabV3: 79,256 instructions for one image, and work of the host."""
    path = more_models / "zoo" / "coral_deeplabv3_mnv2_dm05_u8.tflite"
    if not path.exists():
        pytest.skip(f"CELOSIA_MODELS has no {path.name}")
    program = compile_graph(load(path), preset("edge"))
    assert max(len(part.mains) for part in program.parts) > 1
    x = rng.integers(0, 256, (1, *program.inputs[0].shape)).astype(np.uint8)
    with open_session(program, device="machine") as session:
        found = session.run([x])
    known = invoked(interpreter(path.read_bytes()), x[:, None])
    for y, right in zip(found, known, strict=True):
        np.testing.assert_array_equal(y, right.reshape(y.shape))
