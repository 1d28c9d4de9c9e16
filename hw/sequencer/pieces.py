"""Instructions in pieces: an instruction is wide, used once in many cycles, and goes far."""

from amaranth.hdl import Array, Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.sequencer.check import CHECKED

PIECE_BITS = 128

#: A piece, the lowest first, and the place of its instruction in the program.
PIECE = data.StructLayout(
    {"index": unsigned(streams.INDEX_BITS), "bits": unsigned(PIECE_BITS)},
)

#: A piece of a checked instruction.
CHECKED_PIECE = data.StructLayout({"piece": PIECE, "error": isa.Error, "unit": isa.Unit})


def piece_count(*opcodes: isa.Opcode) -> int:
    """Return how many pieces each of these instructions is sent in."""
    return -(-max(isa.LAYOUTS[opcode].size for opcode in opcodes) // PIECE_BITS)


class Split(wiring.Component):
    """Holds a checked instruction, and offers as many of its pieces as its unit wants.

    Members
    -------
    i : In(stream of CHECKED)
        Taken while nothing is held.
    o : Out(stream of CHECKED_PIECE)

    Timing
    ------
    The first piece is offered in the cycle after its instruction was taken, the others in the cycles
    after; an instruction of n pieces every n + 1 cycles.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self) -> None:
        super().__init__(
            {"i": In(stream.Signature(CHECKED)), "o": Out(stream.Signature(CHECKED_PIECE))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counts = [
            piece_count(*(opcode for opcode, owner in isa.UNITS.items() if owner is unit))
            for unit in isa.Unit
        ]
        held = Signal(CHECKED, reset_less=True)
        gone = Signal(range(max(counts)))
        m.d.comb += [
            self.i.ready.eq(~self.o.valid),
            self.o.payload.piece.index.eq(held.index),
            self.o.payload.piece.bits.eq(held.word[:PIECE_BITS]),
            self.o.payload.error.eq(held.error),
            self.o.payload.unit.eq(held.unit),
        ]
        # Taken in any case: the valid bit tells whether there was anything.
        with m.If(~self.o.valid):
            m.d.sync += [held.eq(self.i.payload), self.o.valid.eq(self.i.valid), gone.eq(0)]
        with m.Elif(self.o.ready):
            m.d.sync += [held.word.eq(held.word >> PIECE_BITS), gone.eq(gone + 1)]
            with m.If(gone == Array(count - 1 for count in counts)[held.unit.as_value()]):
                m.d.sync += self.o.valid.eq(0)
        return m


class Join(wiring.Component):
    """Makes an instruction of its pieces.

    Parameters
    ----------
    opcodes : tuple of Opcode
        What the unit executes.

    Members
    -------
    i : In(stream of PIECE)
        Taken while the instruction before is not offered any more.
    o : Out(stream of ``streams.issued(*opcodes)``)
    idle : Out(1)
        Nothing inside.

    Timing
    ------
    An instruction is offered in the cycle after its last piece was taken, and the first piece of the
    next one taken in the cycle after it has left.
    """

    i: stream.Interface
    o: stream.Interface
    idle: Signal

    def __init__(self, *, opcodes: tuple[isa.Opcode, ...]) -> None:
        self.opcodes = opcodes
        payload = streams.issued(*opcodes)
        super().__init__(
            {
                "i": In(stream.Signature(PIECE)),
                "o": Out(stream.Signature(payload)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = piece_count(*self.opcodes)
        bits = Signal(count * PIECE_BITS, reset_less=True)
        index = Signal(streams.INDEX_BITS, reset_less=True)
        there = Signal(range(count))
        m.d.comb += [
            self.i.ready.eq(~self.o.valid),
            self.o.payload.index.eq(index),
            self.o.payload.fields.as_value().eq(bits),
            self.idle.eq(~self.o.valid & (there == 0)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                bits.eq(Cat(bits, self.i.payload.bits)[PIECE_BITS:]),
                index.eq(self.i.payload.index),
                there.eq(there + 1),
            ]
            with m.If(there == count - 1):
                m.d.sync += [there.eq(0), self.o.valid.eq(1)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
