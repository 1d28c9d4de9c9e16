"""Instructions in pieces: an instruction is wide, used once in many cycles, and goes far."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa

PIECE_BITS = 128

#: A piece, the lowest first, and the place of its instruction in the program.
PIECE = data.StructLayout(
    {"index": unsigned(streams.INDEX_BITS), "bits": unsigned(PIECE_BITS)},
)


def piece_count(*opcodes: isa.Opcode) -> int:
    """Return how many pieces each of these instructions is sent in."""
    return -(-max(isa.LAYOUTS[opcode].size for opcode in opcodes) // PIECE_BITS)


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
