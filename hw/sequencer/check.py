"""Legality of an instruction, before any unit sees it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.sequencer.fetch import FETCHED
from celosia.hw.sequencer.pieces import PIECE, PIECE_BITS, piece_count

#: A piece of an instruction judged: the error this is, and the unit that executes it.
CHECKED = data.StructLayout({"piece": PIECE, "error": isa.Error, "unit": isa.Unit})

#: Pieces that each unit, in the order of their numbers, wants of an instruction.
COUNTS = tuple(
    piece_count(*(opcode for opcode, owner in isa.UNITS.items() if owner is unit))
    for unit in isa.Unit
)


def _violated(value: Value, limit: isa.Limit, field: isa.Field) -> Value | None:
    """Return when ``value`` breaks ``limit``; None where the field's bits cannot."""
    low, high = field.representable
    broken = []
    if limit.low > low:
        broken.append(value < limit.low)
    if limit.high < high:
        broken.append(value > limit.high)
    if limit.multiple > 1:
        broken.append(value.as_unsigned()[: (limit.multiple - 1).bit_length()] != 0)
    result: Value | None = None
    for term in broken:
        result = term if result is None else result | term
    return result


class Check(wiring.Component):
    """Compares every field with what the configuration allows; hands on what its unit wants of it.

    Parameters
    ----------
    config : Config
        Sizes that the fields are held against.

    Members
    -------
    i : In(stream of FETCHED)
        An instruction is taken with its last piece.
    shift : Out(1)
        Another piece was taken: the word at ``i`` has to move down by PIECE_BITS.
    o : Out(stream of CHECKED)
        As many pieces of each instruction as its unit wants.

    Timing
    ------
    The first piece is offered two cycles after its instruction came, the others in the cycles after.
    """

    i: stream.Interface
    shift: Signal
    o: stream.Interface

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(FETCHED)),
                "shift": Out(1),
                "o": Out(stream.Signature(CHECKED)),
            }
        )

    def _broken(self, word: Value, opcode: isa.Opcode) -> list[Value]:
        layout = isa.LAYOUTS[opcode]
        view = layout(word[: layout.size])
        allowed = isa.limits(self.config)[opcode]
        broken = [word[layout.size :] != 0] if layout.size < len(word) else []
        for field in isa.FORMATS[opcode]:
            value = Value.cast(view[field.name])
            violated = _violated(value, allowed[field.name], field)
            if violated is not None:
                broken.append(violated)
        if opcode is isa.Opcode.VECTOR:
            mode = Value.cast(view.mode)
            from_sums = Value.cast(view.source) == isa.Space.ACCUMULATORS.value
            to_sums = Value.cast(view.destination) == isa.Space.ACCUMULATORS.value
            broken += [
                (from_sums | to_sums) & (view.channels > self.config.columns),
                from_sums & to_sums & (mode != isa.Mode.OVERWRITE.value),
                mode > isa.Mode.MAX.value,
            ]
        return broken

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = self.i.payload.word
        seen = Signal()
        terms = {opcode: self._broken(word, opcode) for opcode in isa.Opcode}
        matches = Signal(len(isa.Opcode), reset_less=True)
        broken = []
        unit = Signal(isa.Unit)
        for n, opcode in enumerate(isa.Opcode):
            failed = Signal(
                len(terms[opcode]), name=f"failed_{opcode.name.lower()}", reset_less=True
            )
            m.d.sync += [failed.eq(Cat(terms[opcode])), matches[n].eq(word[:8] == opcode.value)]
            broken.append(failed.any() & matches[n])
            with m.If(matches[n]):
                m.d.comb += unit.eq(isa.UNITS[opcode])
        # The word waits at the input: for a cycle in which its fields are compared, for one in which
        # that becomes a verdict, and until its pieces have gone.
        verdict = Signal(isa.Error, reset_less=True)
        owner = Signal(isa.Unit, reset_less=True)
        taken = Signal()
        gone = Signal(range(max(COUNTS)))
        last = gone == Array(count - 1 for count in COUNTS)[owner.as_value()]
        m.d.comb += [
            taken.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(taken & last),
            self.shift.eq(taken & ~last),
            self.o.payload.piece.index.eq(self.i.payload.index),
            self.o.payload.piece.bits.eq(word[:PIECE_BITS]),
            self.o.payload.error.eq(verdict),
            self.o.payload.unit.eq(owner),
        ]
        with m.If(~self.o.valid):
            m.d.sync += [
                seen.eq(self.i.valid & ~seen),
                self.o.valid.eq(seen),
                gone.eq(0),
                owner.eq(unit),
                verdict.eq(
                    Mux(
                        self.i.payload.error,
                        isa.Error.BUS,
                        Mux(
                            ~matches.any(),
                            isa.Error.OPCODE,
                            Mux(_any(broken), isa.Error.FIELD, isa.Error.NONE),
                        ),
                    )
                ),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [gone.eq(gone + 1), self.o.valid.eq(~last)]
        return m


def _any(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = result | value
    return result
