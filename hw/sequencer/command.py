"""Registers that hold the next instruction of a unit."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, WORD_BYTES, register_limits
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.lib.component import Component

#: Entry of the queue of a unit: a word, and the index of its instruction.
QUEUED = data.StructLayout(
    {"bits": unsigned(8 * WORD_BYTES), "index": unsigned(streams.INDEX_BITS)}
)


class Command(Component):
    """Registers of a unit: SET changes one of them, GO offers their values as an instruction.

    Parameters
    ----------
    config : Config
        Sizes, which give the widths of the registers.
    unit : Unit
        The unit.

    Members
    -------
    i : In(stream of QUEUED)
        Words of this unit, in order. Taken while no instruction is offered.
    o : Out(stream of ``streams.issued``)
        Instruction. Bits of a field that no legal value uses have no register and are zero.

    Timing
    ------
    One word a cycle; an instruction is offered in the cycle after its GO. A reset gives the
    registers the defaults of their fields.
    """

    def __init__(self, *, config: Config, unit: isa.Unit) -> None:
        self.config = config
        self.unit = unit
        opcodes = [opcode for opcode, owner in isa.UNITS.items() if owner is unit]
        super().__init__(
            {
                "i": In(stream.Signature(QUEUED)),
                "o": Out(stream.Signature(streams.issued(*opcodes))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self.i.payload.bits
        code, value = bits[:CODE_BITS], bits[CODE_BITS:]
        fields = isa.UNIT_LAYOUTS[self.unit](self.o.payload.fields.as_value())
        index = Signal(streams.INDEX_BITS, reset_less=True)
        opcode = Signal(isa.Opcode.as_shape().width, reset_less=True)
        wait, post = (Signal(SEMAPHORES, name=n, reset_less=True) for n in ("wait", "post"))
        m.d.comb += [
            self.i.ready.eq(~self.o.valid),
            self.o.payload.index.eq(index),
            fields.opcode.eq(opcode),
            fields.wait.eq(wait),
            fields.post.eq(post),
        ]
        taken = self.i.valid & self.i.ready
        parts: dict[str, list[Value]] = {}
        for register in REGISTERS[self.unit]:
            width = register_limits(self.config)[register.code].high.bit_length()
            init = register.value({part.field.name: part.field.default for part in register.parts})
            held = Signal(width, name=register.name, init=init)
            with m.If(taken & (code == register.code)):
                m.d.sync += held.eq(value)
            padded = Cat(held, Const(0, register.width - width))
            at = 0
            for field, _, size in register.parts:
                parts.setdefault(field.name, []).append(padded[at : at + size])
                at += size
        for name, values in parts.items():
            m.d.comb += Value.cast(fields[name]).eq(Cat(values))
        with m.If(self.o.valid):
            m.d.sync += self.o.valid.eq(~self.o.ready)
        with m.Elif(self.i.valid & self._starts(code)):
            m.d.sync += [
                self.o.valid.eq(1),
                index.eq(self.i.payload.index),
                opcode.eq(code),
                wait.eq(value),
                post.eq(value[SEMAPHORES:]),
            ]
        return m

    def _starts(self, code: Value) -> Value:
        """Return True for the code of an opcode: registers have greater ones."""
        return code < REGISTERS[self.unit][0].code
