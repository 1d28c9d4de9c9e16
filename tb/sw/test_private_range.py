"""External memory that each core of a pod has for itself."""

from dataclasses import replace

import pytest
from whole_networks.small import through_memory

from celosia.hw.arch.presets import preset
from celosia.sim.check.footprint import Memory, touches
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import Segment
from celosia.sw.ir.program import Program
from celosia.sw.runtime.pods import private_range


@pytest.fixture
def program() -> Program:
    return compile_graph(load(through_memory()), preset("nano"), 4)


@pytest.mark.parametrize("unified_bytes", [1024, 2048, 65536])
def test_what_a_core_writes_is_private(unified_bytes: int) -> None:
    """All that STORE touches, inputs and outputs of the batch; no constants, no code."""
    config = preset(f"nano,unified_bytes={unified_bytes}")
    program = compile_graph(load(through_memory()), config, 3)
    written = {
        int(address)
        for _, section in program.sections
        for instruction in section.instructions
        for touch in touches(instruction, config, Memory.EXTERNAL)
        if touch.write
        for address in touch.pattern.addresses().ravel()
    }
    for port in (*program.inputs, *program.outputs):
        written |= set(range(port.address, port.address + 3 * port.bytes_per_item))
    assert private_range(program) == (min(written), max(written) + 1)


@pytest.mark.parametrize("kind", ["segment", "section"])
def test_nothing_of_all_cores_lies_among_what_one_writes(program: Program, kind: str) -> None:
    first, end = private_range(program)
    (part,) = program.parts
    code = part.setups[0].code if kind == "section" else bytes(64)
    before, cases = first - len(code), ((0, False), (1, True))
    places = [(before + n, refused) for n, refused in cases]
    places += [(end - n, refused) for n, refused in cases]
    for address, is_refused in places:
        if kind == "segment":
            segments = (*program.segments, Segment("more", address, code))
            changed = replace(program, segments=segments)
        else:
            section = replace(part.setups[0], address=address)
            changed = replace(program, steps=(replace(part, setups=(section,)),))
        if is_refused:
            with pytest.raises(DeviceError, match="got them mixed: compile again"):
                private_range(changed)
        else:
            assert private_range(changed) == (first, end)
