"""The chip's pins, its commands, and what the rooms of the controller say to one another."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.sdram.timing import Part

#: Data pins and bytes of a word.
DATA_BITS = 16
WORD_BYTES = 2
BANKS = 4
BANK_BITS = 2
#: Column commands of a chunk lie within so many bytes, aligned.
CHUNK_BYTES = 256
#: Cycles by which read data may be captured late, at most.
READ_DELAYS = 4
#: Address pin that makes a precharge one of all banks.
ALL_BANKS = 1 << 10


class Command(enum.Enum, shape=4):
    """Levels of the pins ``cs_n``, ``ras_n``, ``cas_n``, ``we_n``, from the left."""

    DESELECT = 0b1111
    ACTIVATE = 0b0011
    READ = 0b0101
    WRITE = 0b0100
    PRECHARGE = 0b0010
    REFRESH = 0b0001
    MODE = 0b0000


def pins(row_bits: int) -> wiring.Signature:
    """Return the pins of a chip as the controller sees them, but for the clock.

    ``dq_oe`` high drives ``dq_o`` onto the data pins; ``dqm`` bit 0 masks the low byte.
    """
    return wiring.Signature(
        {
            "cke": Out(1),
            "cs_n": Out(1),
            "ras_n": Out(1),
            "cas_n": Out(1),
            "we_n": Out(1),
            "ba": Out(BANK_BITS),
            "a": Out(row_bits),
            "dqm": Out(WORD_BYTES),
            "dq_o": Out(DATA_BITS),
            "dq_oe": Out(1),
            "dq_i": In(DATA_BITS),
        }
    )


def command_layout(row_bits: int) -> data.StructLayout:
    """Return what one cycle asks of the chip."""
    return data.StructLayout(
        {"command": Command, "bank": unsigned(BANK_BITS), "address": unsigned(row_bits)}
    )


def chunk_beats(data_bytes: int) -> int:
    """Return the most beats that a chunk has."""
    return CHUNK_BYTES // data_bytes


def place_layout(part: Part, data_bytes: int) -> data.StructLayout:
    """Return where a beat lies. As bits: the address in beats, so neighbouring pages differ in bank."""
    beat_bits = (data_bytes // WORD_BYTES - 1).bit_length()
    return data.StructLayout(
        {
            "column": unsigned(part.column_bits - beat_bits),
            "bank": unsigned(BANK_BITS),
            "row": unsigned(part.row_bits),
        }
    )


def chunk_layout(part: Part, data_bytes: int) -> data.StructLayout:
    """Return a run of beats in one row.

    ``beats`` is one less than their number. ``void`` writes change nothing.
    """
    return data.StructLayout(
        {
            "place": place_layout(part, data_bytes),
            "beats": unsigned((chunk_beats(data_bytes) - 1).bit_length()),
            "write": unsigned(1),
            "void": unsigned(1),
        }
    )


def check(part: Part, *, data_bytes: int, address_bits: int, read_delay: int) -> None:
    """Refuse what a controller cannot be built for.

    Raises
    ------
    ValueError
        If ``data_bytes`` is not 4, 8 or 16 (bursts of two, four or eight words), addresses do not
        reach the whole chip, or ``read_delay`` is none of 0 to ``READ_DELAYS``.
    """
    if data_bytes not in (4, 8, 16):
        raise ValueError(f"data_bytes: wanted 4, 8 or 16, got {data_bytes}")
    if address_bits < part.address_bits:
        raise ValueError(
            f"address_bits: wanted at least {part.address_bits} for {part.name}, got {address_bits}"
        )
    if not 0 <= read_delay <= READ_DELAYS:
        raise ValueError(f"read_delay: wanted 0 to {READ_DELAYS}, got {read_delay}")
