"""Payloads of the streams between the blocks of the core."""

from typing import Any

from amaranth.hdl import Module, Mux, ShapeLike, Value, signed, unsigned
from amaranth.lib import data, stream

from celosia.hw.arch import isa
from celosia.hw.arch.config import ADDRESS_BITS, TAG_BITS
from celosia.hw.arch.registers import BOUND_BITS, MOST_INSTRUCTIONS, Activity
from celosia.hw.lib.component import Bundle, Component, In, Out

#: Bits that number the instructions of a program.
INDEX_BITS = MOST_INSTRUCTIONS.bit_length()


def issued(*opcodes: isa.Opcode) -> data.StructLayout:
    """Return the payload of a unit's ``instruction`` stream.

    Members
    -------
    tag : unsigned(TAG_BITS)
        Tag of the instruction, for error reports.
    fields : union of the opcodes' layouts, by lower-case name
        Fields of the instruction; ``opcode`` lies at the same bits in all layouts.
    """
    return data.StructLayout(
        {
            "tag": unsigned(TAG_BITS),
            "fields": data.UnionLayout({op.name.lower(): isa.LAYOUTS[op] for op in opcodes}),
        }
    )


#: Fault of a unit: its code, and the tag of the instruction.
FAULT = data.StructLayout({"code": isa.Error, "tag": unsigned(TAG_BITS)})


class _UnitPorts:
    def __init__(self, instruction: ShapeLike) -> None:
        self.instruction = In(stream.Signature(instruction))
        self.done = Out(1)
        self.fault_valid = Out(1)
        self.fault = Out(FAULT)
        self.abort = In(1)
        self.idle = Out(1)
        self.activity = Out(Activity)
        super().__init__()

    def report(self, m: Module, source: "_UnitPorts") -> None:
        """Drive the outputs by those of another unit, or of the part that has them."""
        m.d.comb += [
            self.done.eq(source.done),
            self.fault_valid.eq(source.fault_valid),
            self.fault.eq(source.fault),
            self.idle.eq(source.idle),
            self.activity.eq(source.activity),
        ]


class UnitPorts(_UnitPorts, Bundle):
    """Ports of a unit that executes instructions of a payload.

    Their contract is in ``docs/design/architecture.md``.
    """


class Unit(_UnitPorts, Component):
    """Component with ``UnitPorts``, and those that it declares itself."""


def activity_of(*classes: tuple[Value, Activity], otherwise: Activity = Activity.IDLE) -> Value:
    """Return the activity of the first class whose condition holds.

    Parameters
    ----------
    *classes : tuple of Value, Activity
        Conditions and their activities.
    otherwise : Activity
        Activity if no condition holds.
    """
    activity = Value.cast(otherwise)
    for holds, one in reversed(classes):
        activity = Mux(holds, one, activity)
    return activity


def _unified(*, rows: int, unified_bytes: int) -> dict[str, ShapeLike]:
    address_bits = (unified_bytes - 1).bit_length() + 1
    row_bits = (unified_bytes // rows - 1).bit_length() + 1
    return {
        "address": unsigned(address_bits),
        "skip": data.ArrayLayout(unsigned(row_bits), rows),
        "mask": unsigned(rows),
    }


def unified_read(*, rows: int, unified_bytes: int) -> data.StructLayout:
    """Return the payload of a read request to a unified buffer of ``rows`` banks.

    Lane ``i`` reads byte ``address + i + skip[i] * rows``; lanes whose ``mask`` bit is clear read
    zero and cause no fault. ``address`` is one bit wider than addresses need and wraps: a
    masked lane may lie before byte 0, and an address past the end is recognised. ``skip`` is one
    bit wider than rows need, so that a sum of skips can saturate outside.
    """
    return data.StructLayout(_unified(rows=rows, unified_bytes=unified_bytes))


def unified_write(*, rows: int, unified_bytes: int) -> data.StructLayout:
    """Return the payload of a write: that of ``unified_read`` and ``data``, a byte a lane."""
    return data.StructLayout(
        {
            **_unified(rows=rows, unified_bytes=unified_bytes),
            "data": data.ArrayLayout(unsigned(8), rows),
        }
    )


class UnifiedReads(Bundle):
    """Reads of the unified buffer by a unit, which declares it ``Out``.

    Members
    -------
    request : Out(stream of ``unified_read``)
        Requests.
    valid, data, fault : In(1), In(ArrayLayout(unsigned(8), rows)), In(1)
        Response: bytes in lane order; masked lanes and lanes outside the buffer are zero. An
        unmasked lane is outside the buffer; low in cycles without a response of this unit.
    wrong : In(1)
        One cycle after a response: an unmasked lane had wrong parity.
    """

    def __init__(self, *, rows: int, unified_bytes: int) -> None:
        request = unified_read(rows=rows, unified_bytes=unified_bytes)
        self.request = Out(stream.Signature(request))
        self.valid = In(1)
        self.data = In(data.ArrayLayout(unsigned(8), rows))
        self.fault = In(1)
        self.wrong = In(1)
        super().__init__()


#: Parameters of one channel. ``left`` shifts before the multiplication, ``right`` after it.
CHANNEL = data.StructLayout(
    {
        "bias": signed(32),
        "multiplier": unsigned(31),
        "left": unsigned(5),
        "right": unsigned(5),
    }
)


def burst(*, length_bits: int) -> data.StructLayout:
    """Return the payload of a burst request: byte ``address`` of the first beat, ``beats`` − 1."""
    return data.StructLayout({"address": unsigned(ADDRESS_BITS), "beats": unsigned(length_bits)})


#: First and last page of ``1 << BOUND_BITS`` bytes of external memory that bursts may touch.
BOUNDS = data.StructLayout(
    {name: unsigned(ADDRESS_BITS - BOUND_BITS) for name in ("base", "limit")}
)


def bounds() -> Any:
    """Return an input of BOUNDS; without a driver, every address lies within them."""
    return In(BOUNDS, init={"base": 0, "limit": -1})


def outside(limits: data.View, address: Value) -> Value:
    """Return 1 if an external address, or a burst that begins there, is outside these BOUNDS."""
    # Yosys makes `<` of a carry chain alone; for `>` it adds a comparison with LUTs.
    page = address[BOUND_BITS:]
    return (page < limits.base) | (limits.limit < page)
