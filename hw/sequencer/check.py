"""Check of the words of a program, before their units get them."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import (
    CODE_BITS,
    REGISTERS,
    VALUE_BITS,
    WORD_BYTES,
    register_limits,
)
from celosia.hw.arch.config import SEMAPHORES, Config
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.skid_buffer import FAR, link
from celosia.hw.sequencer.fetch import WORD

#: Word after its check, with the index of its instruction, its error, and the bit of its unit.
#: ``good``: there is no error. What decides where the word goes comes first, see ``DIRECT``.
CHECKED = data.StructLayout(
    {
        "units": unsigned(len(isa.Unit)),
        "go": 1,
        "good": 1,
        "error": isa.Error,
        "bits": unsigned(8 * WORD_BYTES),
        "index": unsigned(streams.INDEX_BITS),
    }
)

#: Bits of ``units``, ``go`` and ``good``: they reach all queues, directly from registers.
DIRECT = CHECKED["error"].offset

#: Lower bits of a code, which tell apart the codes of a group: opcodes, or registers of one unit.
_MEMBER_BITS = 4


#: Fields whose limits on one instruction are below those of others of its unit.
_NARROWER = {
    isa.Opcode.MOVE_WEIGHTS: ("taps",),
    isa.Opcode.SOFTMAX: ("x_count", "channels"),
}


def code_entry(config: Config) -> data.StructLayout:
    """Return an entry of the table of codes.

    ``units`` has the bit of the unit that has this opcode or register, ``go`` is 1 for an opcode.
    ``positive`` and ``high`` are the limits of the value; ``step`` has ones where the value must
    have zeros.
    """
    multiple = max(limit.multiple for limit in register_limits(config).values())
    return data.StructLayout(
        {
            "units": unsigned(len(isa.Unit)),
            "go": 1,
            "positive": 1,
            "high": unsigned(VALUE_BITS),
            "step": unsigned(max(1, (multiple - 1).bit_length())),
        }
    )


class Codes(Component):
    """Table of the codes of words.

    Parameters
    ----------
    config : Config
        Sizes that give the limits.

    Members
    -------
    code : In(CODE_BITS)
        Code of a word.
    entry : Out(``code_entry``)
        Its entry; ``units`` is 0 for a code without one.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.code = In(CODE_BITS)
        self.entry = Out(code_entry(config))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        limits = register_limits(self.config)
        masks = (1 << 2 * SEMAPHORES) - 1
        entries = [
            (opcode.value, unit, 1, isa.Limit(0, masks))
            for opcode, unit in isa.UNITS.items()
            if isa.has(opcode, self.config)
        ]
        entries += [
            (register.code, unit, 0, limits[register.code])
            for unit, registers in REGISTERS.items()
            for register in registers
        ]
        # Group, then member: four bits are one LUT, all seven would be many in a row.
        with m.Switch(self.code[_MEMBER_BITS:]):
            for group in sorted({code >> _MEMBER_BITS for code, *_ in entries}):
                with m.Case(group), m.Switch(self.code[:_MEMBER_BITS]):
                    for code, unit, go, limit in entries:
                        if code >> _MEMBER_BITS != group:
                            continue
                        with m.Case(code % (1 << _MEMBER_BITS)):
                            m.d.comb += [
                                self.entry.units.eq(1 << unit.value),
                                self.entry.go.eq(go),
                                self.entry.positive.eq(limit.low),
                                self.entry.high.eq(limit.high),
                                self.entry.step.eq(limit.multiple - 1),
                            ]
        return m


class Conflicts(Component):
    """Check of values that are legal alone, but not in one instruction; see ``isa.cross_check``.

    Parameters
    ----------
    config : Config
        Sizes.

    Members
    -------
    word : In(8 * WORD_BYTES)
        Word that is checked.
    enable : In(1)
        ``word`` is one of a program, and not what a reset left. A SET takes effect in the next
        cycle, however long it stays.
    wrong : Out(1)
        If ``word`` is a GO: the values of its unit's registers conflict.

    Timing
    ------
    ``wrong`` is combinational from ``word``.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.word = In(8 * WORD_BYTES)
        self.enable = In(1)
        self.wrong = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code, value = self.word[:CODE_BITS], self.word[CODE_BITS:]
        load = {r.name: r.code for r in REGISTERS[isa.Unit.LOAD]}
        vector = {r.name: r for r in REGISTERS[isa.Unit.VECTOR]}
        limits = isa.limits(self.config)
        steps = {
            opcode: limits[opcode]["external"].multiple
            for opcode in (isa.Opcode.LOAD_WEIGHTS, isa.Opcode.LOAD_PARAMS)
        }
        external = Signal(range(max(steps.values())))
        source, destination, mode, wide = (Signal(name=n) for n in ("src", "dst", "mode", "wide"))
        function = {}
        at = 0
        for field, _, width in vector["function"].parts:
            function[field.name] = value[at : at + width]
            at += width
        with m.If(self.enable):
            with m.Switch(code):
                with m.Case(load["external"]):
                    m.d.sync += external.eq(value)
                with m.Case(vector["channels"].code):
                    m.d.sync += wide.eq(value > self.config.columns)
                with m.Case(vector["function"].code):
                    m.d.sync += [
                        source.eq(function["source"]),
                        destination.eq(function["destination"]),
                        mode.eq(function["mode"] != isa.Mode.OVERWRITE.value),
                    ]
        too_much = self._beyond(m, code, value)
        with m.Switch(code[: isa.Opcode.as_shape().width]):
            for opcode, step in steps.items():
                with m.Case(opcode.value):
                    m.d.comb += self.wrong.eq((external & (step - 1)) != 0)
            with m.Case(isa.Opcode.VECTOR.value):
                inside = source | destination
                m.d.comb += self.wrong.eq((inside & wide) | (source & destination & mode))
            for opcode, beyond in too_much.items():
                with m.Case(opcode.value):
                    m.d.comb += self.wrong.eq(Cat(beyond).any())
        return m

    def _beyond(self, m: Module, code: Value, value: Value) -> dict[isa.Opcode, list[Value]]:
        """Return instructions with lower limits than others of their unit; what exceeds them."""
        conditions: dict[isa.Opcode, list[Value]] = {}
        for opcode, names in _NARROWER.items():
            if not isa.has(opcode, self.config):
                continue
            registers = {r.name: r.code for r in REGISTERS[isa.UNITS[opcode]]}
            for name in names:
                long = Signal(name=f"{opcode.name}_{name}".lower())
                most = isa.limits(self.config)[opcode][name].high
                with m.If(self.enable & (code == registers[name])):
                    m.d.sync += long.eq(value > most)
                conditions.setdefault(opcode, []).append(long)
        return conditions


class Check(Component):
    """Check of each word: code, limits of the value, order of the words of an instruction.

    Parameters
    ----------
    config : Config
        Sizes that give the limits.

    Members
    -------
    i : In(stream of WORD)
        Words of a program, in order.
    o : Out(stream of CHECKED)
        The same words, each with its error. Words after the first error mean nothing:
        ``ProgramReader`` stops there.
    index : Out(INDEX_BITS)
        Index of the instruction that the next words belong to.
    empty : Out(1)
        No word is inside.

    Timing
    ------
    ``o`` follows ``i`` by three cycles. One word a cycle.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.i = In(stream.Signature(WORD))
        self.o = Out(stream.Signature(CHECKED))
        self.index = Out(streams.INDEX_BITS)
        self.empty = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.codes = codes = Codes(config=self.config)
        m.submodules.conflicts = conflicts = Conflicts(config=self.config)
        # With skid buffers, neither the memory of the fetch nor a queue that is full reaches a
        # register of the table or of the comparisons; the code comes directly from registers.
        m.submodules.first = first = link(WORD, skid=self.config.skid, direct=CODE_BITS)
        m.submodules.last = last = link(CHECKED, skid=self.config.skid, block=FAR, direct=DIRECT)
        wiring.connect(m, wiring.flipped(self.i), first.i)
        wiring.connect(m, last.o, wiring.flipped(self.o))
        valid = Signal()
        held = Signal(WORD, reset_less=True)
        entry = Signal(code_entry(self.config), reset_less=True)
        moves = Signal()
        m.d.comb += [
            codes.code.eq(first.o.payload.bits[:CODE_BITS]),
            moves.eq(~valid | last.i.ready),
            first.o.ready.eq(moves),
            last.i.valid.eq(valid),
            self.empty.eq(~valid & ~first.o.valid & ~last.o.valid),
        ]
        # The words of an instruction lie side by side, its registers in the order of their codes.
        # `rises`: this word has a greater code than the one before. `zero`: its value is 0.
        # `pending`: the GO has not come; unit of the word before.
        code, value = held.bits[:CODE_BITS], held.bits[CODE_BITS:]
        rises = Signal(reset_less=True)
        zero = Signal(reset_less=True)
        with m.If(moves):
            m.d.sync += valid.eq(first.o.valid)
            with m.If(first.o.valid):
                m.d.sync += [
                    held.eq(first.o.payload),
                    entry.eq(codes.entry),
                    rises.eq(codes.code > code),
                    zero.eq(first.o.payload.bits[CODE_BITS:] == 0),
                ]
        pending = Signal()
        owners = Signal(len(isa.Unit), reset_less=True)
        wrong = Signal()
        m.d.comb += [
            conflicts.word.eq(held.bits),
            conflicts.enable.eq(valid),
            wrong.eq(
                (entry.high < value)
                | (entry.positive & zero)
                | (value[: len(Value.cast(entry.step))] & entry.step).any()
                | (pending & ((owners != entry.units) | (~entry.go & ~rises)))
                | (entry.go & conflicts.wrong)
            ),
        ]
        checked = last.i.payload
        m.d.comb += [
            checked.bits.eq(held.bits),
            checked.index.eq(self.index),
            checked.error.eq(self._verdict(held, entry, wrong)),
            checked.good.eq(entry.units.any() & ~held.error & ~wrong),
            checked.units.eq(entry.units),
            checked.go.eq(entry.go),
        ]
        with m.If(valid & last.i.ready):
            m.d.sync += [
                pending.eq(~entry.go),
                owners.eq(entry.units),
                self.index.eq(self.index + entry.go),
            ]
        return m

    @staticmethod
    def _verdict(word: data.View, entry: data.View, wrong: Value) -> Value:
        """Return the error of a word."""
        verdict = Mux(wrong, isa.Error.FIELD, isa.Error.NONE)
        verdict = Mux(entry.units.any(), verdict, isa.Error.OPCODE)
        return Mux(word.error, isa.Error.BUS, verdict)[: isa.Error.as_shape().width]
