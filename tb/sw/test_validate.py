"""Program files that make no sense, and programs that would not end: one clear line of each."""

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networks as w
import numpy as np
import pytest
from malformed import programs, seeds, trial
from malformed.bounds import Damage, check_bounds

from celosia.hw.arch import commands
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program, ProgramError

SCALES: dict[str, Any] = {"weight_scale": 1.0, "output_scale": 1.0}
_NUMBERS: dict[str, Any] = {
    "weights": np.ones((1, 1, 1, 2), np.int8),
    "bias": np.zeros(1, np.int32),
}
#: Too wide for the core.
TRANSPOSED = w.TransposedConvolution(**_NUMBERS, **SCALES, stride=(1, 1 << 14))


def program(layers: list[Any]) -> Program:
    content = w.write_sequential(layers, input_shape=(1, 4, 4, 2), input_scale=0.2)
    return compile_graph(load(content), seeds.core_of(1))


def edited(content: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a program file whose header was changed; its checksum is right."""
    header, blobs = programs._opened(content)
    change(header)
    return programs._closed(header, blobs)


def moved(one: dict[str, Any], other: dict[str, Any], by: int = 0) -> None:
    """Move one range of external memory onto another."""
    one["address"] = other["address"] + by


def core(header: dict[str, Any]) -> dict[str, Any]:
    return next(step["core"] for step in header["steps"] if "core" in step)


DEEP = "[" * 5000 + "]" * 5000


HEADERS = [
    (lambda h: h.update(batch=0), "batch: wanted 1 to 4096, got 0"),
    (lambda h: h.update(batch=True), "batch: wanted a whole number, got True"),
    (lambda h: h.update(memory_bytes=1 << 33), "memory_bytes: wanted 1 to 4294967296"),
    (lambda h: h.update(name="\ud800"), "name: wanted a text"),
    (lambda h: h.update(more=1), "header: wanted name, config"),
    (lambda h: h.pop("layers"), "header: wanted name, config"),
    (lambda h: h.update(steps={}), "steps: wanted a list, got {}"),
    (lambda h: h["config"].update(rows="8"), "config rows: wanted a whole number, got '8'"),
    (lambda h: h["inputs"][0].update(shape=[]), "input: wanted .* of int8, got"),
    (lambda h: h["inputs"][0].update(shape=[0]), "input: wanted extents of at least 1"),
    (lambda h: h["inputs"][0].update(shape=[1 << 40]), "wanted at most 2147483648 elements"),
    (lambda h: h["inputs"][0].update(dtype="object"), "input: wanted one of int8, uint8"),
    (lambda h: h["inputs"][0].update(scale=float("nan")), "scale: wanted a number, got nan"),
    (lambda h: h["inputs"][0].update(scale=1e300), "scale: wanted a number|a scale above 0"),
    (lambda h: h["inputs"][0].update(zero_point=500), "wanted a zero point from -128 to 127"),
    (lambda h: h["outputs"][0].update(tensor=77), "got tensor 77 of nobody"),
    (lambda h: h["segments"][0].update(address=-64), "external memory, got address -64"),
    (lambda h: h["segments"][0].update(bytes=10**9), "segment bytes: wanted 1000000000 more"),
    (lambda h: core(h)["main"][0].update(address=32), "main: wanted a multiple of 64 as address"),
    (lambda h: core(h)["main"][0].update(layers=[[0, 10**12]]), "main: wanted a layer for each"),
    (lambda h: core(h)["main"][0]["layers"][0].__setitem__(0, 99), "main: wanted layers below"),
    (lambda h: core(h).update(items=1 << 40), "wanted .* of int8, got"),
    (lambda h: core(h).update(inputs=[]), "part: wanted inputs and outputs, got none"),
    (
        lambda h: moved(h["segments"][1], core(h)["main"][0]),
        "parameters 0: wanted 128 bytes within",
    ),
    (lambda h: moved(h["segments"][1], core(h)["setup"][0], 16), "apart from setup"),
    (lambda h: moved(core(h)["setup"][0], core(h)["main"][0]), "apart from (main|setup)"),
    (lambda h: moved(core(h)["inputs"][0], h["segments"][1]), "input: .* apart from parameters 0"),
    (lambda h: moved(core(h)["outputs"][0], core(h)["main"][0]), "apart from main"),
    (lambda h: moved(core(h)["outputs"][0], core(h)["inputs"][0], 1), "apart from input, got both"),
    (lambda h: core(h)["inputs"][0].update(address=1 << 40), "of external memory, got address"),
]


@pytest.mark.parametrize(("change", "says"), HEADERS)
def test_a_header_that_makes_no_sense(change: Callable[[dict], object], says: str) -> None:
    sound = program([w.Mean(), w.Reshape(shape=(1, 2))]).to_bytes()
    with pytest.raises(ProgramError, match=says) as refusal:
        Program.from_bytes(edited(sound, change))
    assert str(refusal.value).startswith("program file makes no sense (")


def test_deep_headers_are_refused() -> None:
    text = DEEP.encode()
    content = programs.MAGIC + struct.pack("<II", programs.VERSION, len(text)) + text
    with pytest.raises(ProgramError, match="its header is no JSON"):
        Program.from_bytes(programs.summed(content))


def host(header: dict[str, Any], kind: str = "", **attributes: Any) -> None:
    """Change the kind of the only operator of the host, or some of its attributes."""
    (step,) = (step["host"] for step in header["steps"] if "host" in step)
    step["kind"] = kind or step["kind"]
    step["attributes"].update(attributes)


SWAP = w.Transpose(permutation=(0, 1, 3, 2))
SLICE = w.StridedSlice(begin=(0, 3, 0, 0), end=(1, 0, 4, 2), stride=(1, -1, 1, 1))


OPERATORS = [
    (w.Softmax(), {"kind": "NONSENSE"}, "wanted an operator that the host runs"),
    (w.Softmax(), {"kind": "CONV_2D"}, "wanted other numbers of inputs and results"),
    (w.Softmax(), {"beta": "1"}, "wanted a number of single precision as beta"),
    (w.Softmax(), {"beta": 1e39}, "wanted a number of single precision as beta"),
    (w.Softmax(), {"beta": 0}, "wanted scale . beta of more than 0"),
    (SWAP, {"permutation": [0, 1, 1, 3]}, "wanted different dimensions as permutation"),
    (SWAP, {"permutation": [0, 3, 1, 2]}, r"wanted a result of shape \(1, 2, 4, 4\)"),
    (w.DepthToSpace(block=1), {"block": 1 << 60}, "wanted block from 1 to"),
    (w.SpaceToBatch(blocks=(2, 2)), {"margins": [[1 << 40, 0], [0, 0]]}, "wanted pairs as margins"),
    (TRANSPOSED, {"stride": [1 << 20, 1]}, "wanted \\[4, 4\\] pixels"),
    (TRANSPOSED, {"activation": "TANH"}, "activation to be one of NONE"),
    (SLICE, {"begin": [0, 9, 0, 0]}, "wanted a slice of 4 elements"),
]


@pytest.mark.parametrize(("layer", "values", "says"), OPERATORS)
def test_operators_of_the_host_that_make_no_sense(layer, values, says) -> None:
    sound = program([layer]).to_bytes()
    assert trial.attempt(sound).end == "answer"
    outcome = trial.attempt(edited(sound, lambda header: host(header, **values)))
    assert outcome.end == "ProgramError" and re.search(says, outcome.text), outcome.text


def with_instruction(instruction: Instruction | bytes) -> bytes:
    """Return a program file that begins with an instruction instead of its first one."""
    header, blobs = programs._opened(program([w.Pool()]).to_bytes())
    code = commands.encode([instruction, *commands.decode(bytes(blobs[1]))[1:]])
    blobs[1][:] = code
    header["steps"][0]["core"]["main"][0]["bytes"] = len(code)
    return programs._closed(header, blobs)


STRIDES = {"destination_x_stride": 1, "destination_y_stride": 1}


@pytest.mark.parametrize(
    ("opcode", "fields"),
    [
        # Each of these took all memory, or no end.
        (Opcode.VECTOR, {"x_count": 65535, "y_count": 65535, "channels": 8}),
        (Opcode.VECTOR, {"window_y_count": 255, "window_x_count": 255, "x_count": 5000}),
        (Opcode.LOAD, {"rows": 65535, "length": 1000}),
        (Opcode.FILL, {"x_count": 8000, "y_count": 8000} | STRIDES),
    ],
)
def test_endless_instructions_are_refused(opcode: Opcode, fields: dict[str, int]) -> None:
    outcome = trial.attempt(with_instruction(Instruction(opcode, **fields)))
    wanted = "elements are too many for the machine model"
    assert outcome.end == "DeviceError", outcome
    assert opcode.name in outcome.text and wanted in outcome.text


def test_what_is_no_instruction_is_named() -> None:
    outcome = trial.attempt(with_instruction(b"\xff" * 4))
    assert outcome.end == "ProgramError"
    assert "main: instruction 0: code: wanted an opcode or a register, got 127" in outcome.text


@pytest.mark.parametrize("field", ["length", "rows"])
def test_stores_of_nothing_name_nothing(field: str) -> None:
    outcome = trial.attempt(with_instruction(Instruction(Opcode.STORE, **{field: 0})))
    assert outcome.end == "DeviceError", outcome
    assert f"{field}=0" in outcome.text


def test_stray_bytes_are_found() -> None:
    made = program([w.Pool()])
    memory = np.zeros(made.memory_bytes, np.uint8)
    memory[made.outputs[0].address] = 1
    check_bounds(made, memory)
    spans = [(s.address, len(s.data)) for s in made.segments]
    spans += [(s.address, len(s.code)) for s in (made.setup, made.main)]
    spans += [(p.address, p.bytes_per_item) for p in (*made.inputs, *made.outputs)]
    free = set(range(made.memory_bytes)).difference(*(range(a, a + n) for a, n in spans))
    memory[min(free)] = 1
    with pytest.raises(Damage, match=f"byte {min(free):#x} was written"):
        check_bounds(made, memory)


def with_code(sound: Program, change: Callable[[Instruction, Program], Instruction]) -> Program:
    """Return a program whose first instruction that ``change`` changes is another one."""
    (part,) = sound.parts
    # Longer words may not fit the old place.
    end = -(-sound.memory_bytes // 64) * 64
    for name in ("setups", "mains"):
        (section,) = getattr(part, name)
        code = list(section.instructions)
        for index, i in enumerate(code):
            if (other := change(i, sound)) != i:
                code[index] = other
                moved = replace(section, code=commands.encode(code), address=end)
                sections: Any = {name: (moved,)}
                return replace(sound, steps=(replace(part, **sections),), memory_bytes=moved.end)
    raise AssertionError("no such instruction")


def relocated(opcode: Opcode, **fields: Any) -> Callable[[Instruction, Program], Instruction]:
    """Return the change of an instruction's fields, each by a function of the bytes of memory."""

    def change(i: Instruction, sound: Program) -> Instruction:
        if i.opcode is not opcode:
            return i
        return i.but(**{name: value(sound.memory_bytes) for name, value in fields.items()})

    return change


FAR = 0x4000_0000


@pytest.mark.parametrize(
    ("opcode", "fields"),
    [
        (Opcode.STORE, {"external": lambda memory: FAR}),
        (Opcode.STORE, {"external": lambda memory: memory + 0x10000}),
        (Opcode.STORE, {"rows": lambda memory: 2, "external_pitch": lambda memory: FAR}),
        (Opcode.STORE, {"rows": lambda memory: 3, "external_pitch": lambda memory: (1 << 32) - 1}),
        (Opcode.STORE, {"external": lambda memory: (1 << 32) - 1}),
        (Opcode.LOAD, {"external": lambda memory: FAR}),
        (Opcode.LOAD, {"rows": lambda memory: 2, "external_pitch": lambda memory: FAR}),
        (Opcode.LOAD_WEIGHTS, {"external": lambda memory: FAR}),
        (Opcode.LOAD_PARAMS, {"external": lambda memory: FAR}),
        (Opcode.LOAD_PARAMS, {"count": lambda memory: 4095}),
    ],
)
def test_an_instruction_outside_its_memory(opcode: Opcode, fields: dict[str, Any]) -> None:
    weights, bias = np.ones((3, 1, 1, 2), np.int8), np.zeros(3, np.int32)
    layer = w.Convolution(weights=weights, bias=bias, **SCALES)
    changed = with_code(program([layer]), relocated(opcode, **fields))
    says = f"instruction [0-9]+: {opcode.name}: wanted bytes below 0x.* of external memory, got 0x"
    with pytest.raises(ProgramError, match=says):
        Program.from_bytes(changed.to_bytes())
