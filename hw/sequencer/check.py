"""Legality of an instruction, before any unit sees it."""

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import INSTRUCTION_BYTES, Config
from celosia.hw.sequencer.fetch import FETCHED

#: An instruction judged: the error it is, and the unit that executes it.
CHECKED = data.StructLayout(
    {
        "index": unsigned(streams.INDEX_BITS),
        "word": unsigned(8 * INSTRUCTION_BYTES),
        "error": isa.Error,
        "unit": isa.Unit,
    }
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
    """Compares every field with what the configuration allows.

    Parameters
    ----------
    config : Config
        Sizes that the fields are held against.

    Members
    -------
    i : In(stream of FETCHED)
    o : Out(stream of CHECKED)

    Timing
    ------
    Two cycles; one instruction every two cycles.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, config: Config) -> None:
        self.config = config
        super().__init__({"i": In(stream.Signature(FETCHED)), "o": Out(stream.Signature(CHECKED))})

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
        code = word[:8]
        seen = Signal()
        known = Signal()
        unit = Signal(isa.Unit)
        terms_count = sum(len(self._broken(word, opcode)) for opcode in isa.Opcode)
        failed = Signal(max(1, terms_count), reset_less=True)
        position = 0
        matches = Signal(len(isa.Opcode), reset_less=True)
        with m.If(~seen):
            for n, opcode in enumerate(isa.Opcode):
                m.d.sync += matches[n].eq(code == opcode.value)
        groups = []
        for n, opcode in enumerate(isa.Opcode):
            terms = self._broken(word, opcode)
            for k, term in enumerate(terms):
                m.d.sync += failed[position + k].eq(term)
            groups.append(failed[position : position + len(terms)].any() & matches[n])
            position += len(terms)
            with m.If(matches[n]):
                m.d.comb += unit.eq(isa.UNITS[opcode])
        bad = Signal()
        m.d.comb += [known.eq(matches.any()), bad.eq(_any(groups))]
        # The word waits at the input for the cycle in which its fields are compared.
        m.d.sync += seen.eq(self.i.valid & ~(self.o.valid & self.o.ready))
        m.d.comb += [
            self.o.valid.eq(self.i.valid & seen),
            self.i.ready.eq(self.o.ready & seen),
            self.o.payload.index.eq(self.i.payload.index),
            self.o.payload.word.eq(word),
            self.o.payload.unit.eq(unit),
            self.o.payload.error.eq(
                Mux(
                    self.i.payload.error,
                    isa.Error.BUS,
                    Mux(~known, isa.Error.OPCODE, Mux(bad, isa.Error.FIELD, isa.Error.NONE)),
                )
            ),
        ]
        return m


def _any(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = result | value
    return result
