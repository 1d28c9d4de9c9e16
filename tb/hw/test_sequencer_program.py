"""Programs from a memory of Python: their words in order, or the first error and its index."""

from dataclasses import replace

import pysim
import pytest

from celosia.hw.arch import commands
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.isa import Error, Instruction, Opcode
from celosia.hw.arch.presets import preset
from celosia.hw.arch.registers import LENGTH_BITS
from celosia.hw.sequencer.program import ProgramReader
from celosia.hw.verilog.build import convert

CONFIG = preset("micro,queue_depth=3")
BASE = 0x1000
#: Instructions without errors; FILL has several words.
GOOD = [Instruction(Opcode.FENCE), Instruction(Opcode.FILL, channels=5, value=3)]


class Reader:
    """A program reader and its memory; ``refused``: the beat that the bus refuses."""

    def __init__(self, rng, code, *, stall=0.0, refused=None):
        self.dut = ProgramReader(config=CONFIG)
        self.rng, self.stall, self.refused = rng, stall, refused
        self.code = code
        self.words = []

    async def memory(self, ctx):
        request, beats = self.dut.request, self.dut.beats
        bus = CONFIG.bus_bytes
        while True:
            burst = await pysim.get(ctx, request)
            for n in range(burst.beats + 1):
                place = burst.address - BASE + n * bus
                data = int.from_bytes(self.code[place : place + bus], "little")
                error = self.refused is not None and place // bus == self.refused
                await pysim.rest(ctx, self.rng, self.stall)
                last = n == burst.beats
                await pysim.put(ctx, beats, {"data": data, "error": error, "last": last})

    async def take(self, ctx):
        while True:
            await pysim.rest(ctx, self.rng, self.stall)
            word = await pysim.get(ctx, self.dut.o)
            assert word.error == Error.NONE
            self.words.append((word.bits, word.index))

    async def start(self, ctx, length=None):
        """Run a program until it faults; return the error and its index."""
        dut = self.dut
        self.words.clear()
        ctx.set(dut.address, BASE)
        ctx.set(dut.length, len(self.code) // WORD_BYTES if length is None else length)
        await ctx.tick()
        await pysim.pulse(ctx, dut.begin)
        await ctx.tick().until(dut.fault)
        found = ctx.get(dut.code), ctx.get(dut.index)
        # It stays while no word is taken.
        await ctx.tick().repeat(20)
        assert ctx.get(dut.fault) and (ctx.get(dut.code), ctx.get(dut.index)) == found
        ctx.set(dut.stop, 1)
        while not ctx.get(dut.idle):
            await ctx.tick()
        await pysim.pulse(ctx, dut.flush)
        ctx.set(dut.stop, 0)
        await ctx.tick()
        assert ctx.get(dut.idle) and not ctx.get(dut.o.valid)
        return found


def numbered(code):
    """Return the words of a program with the indices of their instructions."""
    opcodes = {opcode.value for opcode in Opcode}
    index, found = 0, []
    for word in commands.words(code):
        found.append((word, index))
        index += word % (1 << commands.CODE_BITS) in opcodes
    return found, index


def random_code(rng, count):
    return commands.encode([GOOD[int(n)] for n in rng.integers(len(GOOD), size=count)])


@pytest.mark.parametrize("stall", [0.0, 0.6])
async def test_words_in_order_and_the_end_of_a_program(rng, stall):
    """Three programs, one after the other, none of which has a HALT."""
    reader = Reader(rng, b"", stall=stall)
    ctx = await pysim.simulation(reader.dut, background=[reader.memory, reader.take])
    for count in (1, 23, 8):
        reader.code = random_code(rng, count)
        words, instructions = numbered(reader.code)
        assert await reader.start(ctx) == (Error.PROGRAM, instructions)
        assert reader.words == words


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("bad", [0, 1, 17])
async def test_the_first_bad_word_ends_a_program(rng, stall, bad):
    code = bytearray(random_code(rng, 24))
    code[bad * WORD_BYTES : (bad + 1) * WORD_BYTES] = b"\xff" * WORD_BYTES
    words, _ = numbered(bytes(code))
    reader = Reader(rng, bytes(code), stall=stall)
    ctx = await pysim.simulation(reader.dut, background=[reader.memory, reader.take])
    assert await reader.start(ctx) == (Error.OPCODE, words[bad][1])
    assert reader.words == words[:bad]


async def test_a_refused_beat_ends_a_program(rng):
    code = random_code(rng, 24)
    words, _ = numbered(code)
    first = 2 * CONFIG.bus_bytes // WORD_BYTES
    reader = Reader(rng, code, refused=2)
    ctx = await pysim.simulation(reader.dut, background=[reader.memory, reader.take])
    assert await reader.start(ctx) == (Error.BUS, words[first][1])
    assert reader.words == words[:first]


async def test_programs_that_are_too_long_have_no_words(rng):
    reader = Reader(rng, random_code(rng, 4))
    ctx = await pysim.simulation(reader.dut, background=[reader.memory, reader.take])
    assert await reader.start(ctx, 1 << LENGTH_BITS | 4) == (Error.PROGRAM, 0)
    assert not reader.words


@pytest.mark.parametrize(
    ("cells", "in_luts"), [("portable", False), ("ice40_pair", False), ("ecp5_pair", True)]
)
def test_words_wait_in_luts_where_a_family_has_such_memories(cells, in_luts):
    """Yosys refuses them elsewhere."""
    text = convert(ProgramReader(config=replace(CONFIG, cells=cells)), name="reader")
    assert ("distributed" in text) == in_luts
