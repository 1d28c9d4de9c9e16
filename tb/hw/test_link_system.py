"""Link, core and arbiter: the host loads and runs a program over two wires."""

from devices.axi import AxiMemory
from link_bench import Line, Wired

from celosia.hw.arch import commands
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import OFFSETS, Control, Status
from celosia.hw.link.system import System
from celosia.sim.fuzz.programs.configurations import CONFIGURATIONS
from celosia.sw.runtime.link import HostLink

PROGRAM, RESULT, SIZE = 0, 256, 512


def test_a_program_over_two_wires(rng):
    config = CONFIGURATIONS["least"]
    system = System(config=config, divisor=Wired.DIVISOR, memory_bytes=SIZE, slots=2, slot_bytes=64)
    memory = AxiMemory(
        bytearray(rng.bytes(SIZE)),
        data_bytes=config.bus_bytes,
        burst_beats=config.burst_beats,
        rng=rng,
        stall=0.2,
    )
    line = Line(Wired(system), memory, None, gap=Wired.GAP)
    interrupts = line.watch(system.irq)
    value = int(rng.integers(-128, 128))
    program = [
        Instruction(Opcode.FILL, channels=9, value=value),
        Instruction(Opcode.FENCE),
        Instruction(Opcode.STORE, external=RESULT, length=9),
        Instruction(Opcode.HALT),
    ]
    code = commands.encode(program)
    host = HostLink(line, name="test")
    assert host.info.memory_bytes == SIZE
    assert host.read_registers(OFFSETS["fingerprint"], 1) == [config.fingerprint]
    host.write(PROGRAM, code)
    host.write_registers(OFFSETS["interrupt_enable"], 1)
    host.write_registers(OFFSETS["program_address"], PROGRAM, len(code) // WORD_BYTES)
    assert not interrupts
    host.write_registers(OFFSETS["control"], Control.START.value)
    while host.read_registers(OFFSETS["status"], 1) != [Status.DONE.value]:
        assert line.cycle < 40_000
    assert interrupts
    assert host.read(RESULT, 9) == bytes([value % 256] * 9)
    assert bytes(memory.content[RESULT : RESULT + 9]) == bytes([value % 256] * 9)
    # The upper bit of an id is that of the core.
    assert {number >> 1 for number, *_ in memory.reads} == {0, 1}
    assert {number >> 1 for number, *_ in memory.writes} == {0, 1}
    line.end()
