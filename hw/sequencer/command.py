"""Registers that hold the next instruction of a unit."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, unsigned
from amaranth.lib import data, stream

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, WORD_BYTES, register_limits
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY

#: A word for the queue of a unit, the index of its instruction, and whether it is a GO.
QUEUED = data.StructLayout(
    {"bits": unsigned(8 * WORD_BYTES), "index": unsigned(streams.INDEX_BITS), "go": 1}
)


#: Registers that share one copy of ``restore``, of the code of the word, and of the state.
SHARE = 8


def groups(unit: isa.Unit) -> int:
    """Return the groups of ``SHARE`` registers of a unit."""
    return -(-len(REGISTERS[unit]) // SHARE)


def is_go(unit: isa.Unit, code: Value) -> Value:
    """Return True for the code of an opcode: registers of a unit have greater ones."""
    return code < REGISTERS[unit][0].code


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
    i : In(stream of unsigned(32))
        Words of this unit, in order. Taken while no instruction is offered.
    heads : In(ArrayLayout(CODE_BITS + 1, groups))
        For each group of registers ``i.valid``, then the code of ``i.payload``: from registers of
        its own.
    restore : In(1)
        Gives the registers the defaults of their fields, and drops the instruction.
    o : Out(stream of ``streams.issued``)
        Instruction, without its tag and ``post``. Bits of a field that no legal value uses have no
        register and are zero.

    Timing
    ------
    One word a cycle; an instruction is offered in the cycle after its GO. ``restore``, and a reset,
    take effect one cycle later: no word may come in that cycle.
    """

    def __init__(self, *, config: Config, unit: isa.Unit) -> None:
        self.config = config
        self.unit = unit
        opcodes = [opcode for opcode, owner in isa.UNITS.items() if owner is unit]
        self.i = In(stream.Signature(unsigned(8 * WORD_BYTES)))
        self.heads = In(data.ArrayLayout(CODE_BITS + 1, groups(unit)))
        self.o = Out(stream.Signature(streams.issued(*opcodes)))
        self.restore = In(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self.i.payload
        code, value = bits[:CODE_BITS], bits[CODE_BITS:]
        fields = isa.UNIT_LAYOUTS[self.unit](self.o.payload.fields.as_value())
        opcode = Signal(isa.Opcode.as_shape().width, reset_less=True)
        wait = Signal(SEMAPHORES, reset_less=True)
        # An instruction is offered: a copy for each group, and one for the rest.
        offers, *held_offers = [
            Signal(name=f"offers_{n}", attrs=COPY) for n in range(groups(self.unit) + 1)
        ]
        m.d.comb += [
            self.i.ready.eq(~offers),
            self.o.valid.eq(offers),
            fields.opcode.eq(opcode),
            fields.wait.eq(wait),
        ]
        parts: dict[str, list[Value]] = {}
        registers = REGISTERS[self.unit]
        restores = [
            Signal(name=f"restore_{n}", init=1, attrs=COPY) for n in range(groups(self.unit))
        ]
        for n, register in enumerate(registers):
            width = register_limits(self.config)[register.code].high.bit_length()
            init = register.value({part.field.name: part.field.default for part in register.parts})
            held = Signal(width, name=register.name, init=init, reset_less=True)
            group = n // SHARE
            taken = self.heads[group][0] & ~held_offers[group]
            with m.If(restores[group]):
                m.d.sync += held.eq(init)
            with m.Elif(taken & (self.heads[group][1:] == register.code)):
                m.d.sync += held.eq(value)
            padded = Cat(held, Const(0, register.width - width))
            at = 0
            for field, _, size in register.parts:
                parts.setdefault(field.name, []).append(padded[at : at + size])
                at += size
        for name, values in parts.items():
            m.d.comb += Value.cast(fields[name]).eq(Cat(values))
        m.d.sync += [copy.eq(self.restore) for copy in restores]
        copies = (offers, *held_offers)
        with m.If(restores[0]):
            m.d.sync += [copy.eq(0) for copy in copies]
        with m.Elif(offers):
            m.d.sync += [copy.eq(~self.o.ready) for copy in copies]
        with m.Elif(self.i.valid & is_go(self.unit, code)):
            m.d.sync += [
                *(copy.eq(1) for copy in copies),
                opcode.eq(code),
                wait.eq(value),
            ]
        return m
