"""Constants of several parts that stay in the core together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from networks import Convolution, FullyConnected, Pool, Reshape, Softmax, write_sequential

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Opcode
from celosia.hw.arch.presets import preset
from celosia.sw.compiler import compile as passes
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.compiler.layout.tile import Tiling
from celosia.sw.driver.core import RunResult
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.parts import Part, Section
from celosia.sw.ir.program import Program, ProgramError
from celosia.sw.layers.errors import CompileError
from celosia.sw.runtime.interpreter import open_session
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session

TOGETHER, APART = preset("edge"), preset("edge,weight_tiles=16")


def graph(rng: np.random.Generator, parts: int = 3) -> Graph:
    """A network with an operator of the host before each part but the first."""

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape).astype(np.int8)

    scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.5}
    layers: list[Any] = [
        Convolution(weights=weights(8, 3, 3, 1), padding="SAME", **scales),
        Pool(),
        Reshape(shape=(1, 128)),
        FullyConnected(weights=weights(20, 128), **scales),
    ]
    for _ in range(parts - 1):
        layers += [Softmax(), FullyConnected(weights=weights(20, 20), **scales)]
    return load(write_sequential(layers, input_shape=(1, 8, 8, 1), input_scale=0.5))


def constants(program: Program) -> list[int]:
    """Return how many loads of constants each section has."""
    loads = (Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS)
    return [sum(i.opcode in loads for i in s.instructions) for _, s in program.sections]


class Watched(MachineDevice):
    """The machine model, which remembers what it has run and can break down."""

    def __init__(self, config: Config, memory_bytes: int) -> None:
        super().__init__(config, memory_bytes)
        self.ran: list[int] = []
        self.broken = 0

    def run(self, address: int, count: int) -> RunResult:
        self.ran.append(address)
        if self.broken == address:
            raise KeyboardInterrupt
        return super().run(address, count)


def test_constants_of_all_parts_are_loaded_once(rng: np.random.Generator) -> None:
    made = graph(rng)
    program = compile_graph(made, TOGETHER, 2)
    assert program.constants
    first, *others = constants(program)
    assert first > 0 and not any(others)
    assert Program.from_bytes(program.to_bytes()) == program
    apart = compile_graph(made, APART, 2)
    assert apart.constants == () and constants(apart)[::2] != [0, 0, 0]
    x = rng.integers(-128, 128, (6, 8, 8, 1)).astype(np.int8)
    found = []
    for each in (program, apart):
        with open_session(each) as session:
            found.append(session.run([x])[0])
            np.testing.assert_array_equal(session.run([x[::-1]])[0], found[-1][::-1])
    np.testing.assert_array_equal(*found)


def test_a_single_part_has_no_section_of_its_own_for_them(rng: np.random.Generator) -> None:
    assert compile_graph(graph(rng, 1), TOGETHER).constants == ()


@pytest.mark.parametrize(
    ("shared", "counts", "wanted"),
    [
        (True, (1,), False),
        (True, (2,), True),
        (True, (1, 1), True),
        (False, (1,), True),
        (False, (3,), True),
    ],
)
def test_only_a_setup_of_nothing_is_left_out(shared, counts, wanted) -> None:
    """That is, of HALT alone, where the constants of all parts stay."""
    section = Section(0, b"", (-1,))
    setups = tuple(Section(64, b"", (0,) * (count - 1) + (-1,)) for count in counts)
    part = Part(setups=setups, mains=(section,), inputs=(), outputs=(), items=1)
    made = compile_graph(graph(np.random.default_rng(0), 1), TOGETHER)
    program = replace(made, constants=(section,) * shared, steps=(part,))
    assert program.before(part) == setups * wanted


def test_after_an_error_all_is_loaded_again(rng: np.random.Generator) -> None:
    program = compile_graph(graph(rng, 2), TOGETHER)
    assert program.constants
    device = Watched(program.config, program.memory_bytes)
    x = np.zeros((1, 8, 8, 1), np.int8)
    one, two = program.parts
    each = [section.address for section in program.per_batch]
    assert each == [one.setups[0].address, one.mains[0].address, two.mains[0].address]
    with Session(program, device) as session:
        wanted = session.run([x])[0]
        assert device.ran == [program.constants[0].address, *each]
        del device.ran[:]
        session.run([x])
        assert device.ran == each
        device.broken = two.mains[0].address
        with pytest.raises(KeyboardInterrupt):
            session.run([x])
        device.broken = 0
        del device.ran[:]
        np.testing.assert_array_equal(session.run([x])[0], wanted)
        assert device.ran == [program.constants[0].address, *each]


def test_constants_of_all_parts_must_fit(rng, monkeypatch) -> None:
    """Channels begin on whole groups; tables add up; all parts have the same exponentials."""
    right, seen = passes.all_resident, list[Sequence[Tiling]]()
    monkeypatch.setattr(passes, "all_resident", lambda *given: seen.append(given[0]))
    compile_graph(graph(rng, 2), TOGETHER)
    ((one, two),) = seen

    def tables(tiling: Tiling, count: int) -> Tiling:
        ring = replace(tiling.tables.ring, first=count)
        return replace(tiling, tables=replace(tiling.tables, ring=ring))

    def exponentials(tiling: Tiling, content: bytes) -> Tiling:
        ones = replace(tiling.exponentials, contents=(content,), slots=(0,))
        return replace(tiling, exponentials=ones)

    odd = replace(one, parameters=replace(one.parameters, first=TOGETHER.columns + 1))
    _, moved = right([odd, two], TOGETHER) or []
    shift = 2 * TOGETHER.columns
    firsts = [layer.first_channel for layer in two.layers]
    assert [layer.first_channel for layer in moved.layers] == [(n or 0) + shift for n in firsts]
    most = TOGETHER.tables
    assert right([tables(one, most - 1), tables(two, 1)], TOGETHER)
    assert right([tables(one, most - 1), tables(two, 2)], TOGETHER) is None
    assert right([exponentials(one, b"a"), exponentials(two, b"a")], TOGETHER)
    assert right([exponentials(one, b"a"), exponentials(two, b"b")], TOGETHER) is None


def test_constants_in_one_place_are_refused(rng, monkeypatch) -> None:
    monkeypatch.setattr(passes, "all_resident", lambda tilings, config: list(tilings))
    message = "constants of .*: wanted a weight tile for each constant"
    with pytest.raises(CompileError, match=message):
        compile_graph(graph(rng), TOGETHER)


def test_parts_that_load_constants_of_their_own_are_refused(rng, monkeypatch) -> None:
    right = passes.all_resident

    def streaming(tilings: Sequence[Tiling], config: Config) -> list[Tiling] | None:
        *before, last = right(tilings, config) or []
        layers = tuple(replace(layer, resident=0) for layer in last.layers)
        return [*before, replace(last, layers=layers, weights=replace(last.weights, first=0))]

    monkeypatch.setattr(passes, "all_resident", streaming)
    with pytest.raises(CompileError, match="wanted constants that stay, got loads of others"):
        compile_graph(graph(rng), TOGETHER)


def test_a_file_with_damaged_constants_is_refused(rng: np.random.Generator) -> None:
    program = compile_graph(graph(rng, 2), TOGETHER)
    assert program.constants
    moved = replace(program.constants[0], address=program.memory_bytes)
    with pytest.raises(ProgramError, match="constants: wanted .* bytes within"):
        Program.from_bytes(replace(program, constants=(moved,)).to_bytes())
