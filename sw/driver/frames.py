"""Frames on the line: contents, their checksum, and a flag; see ``celosia.hw.arch.link``."""

import binascii

from celosia.hw.arch.link import CRC_BYTES, ESCAPE, ESCAPED, FLAG, RESIDUE


def framed(contents: bytes) -> bytes:
    """Return the bytes on the line of a frame with ``contents`` and their checksum.

    Examples
    --------
    >>> framed(bytes((1, FLAG))).hex(" ")
    '01 7d 5e 85 7f 7f ef 7e'
    """
    raw = contents + binascii.crc32(contents).to_bytes(CRC_BYTES, "little")
    for byte in (ESCAPE, FLAG):
        raw = raw.replace(bytes((byte,)), bytes((ESCAPE, byte ^ ESCAPED)))
    return raw + bytes((FLAG,))


def unframed(received: bytes) -> bytes | None:
    """Return the contents of a frame, received up to its flag; None for a damaged one."""
    for byte in (FLAG, ESCAPE):
        received = received.replace(bytes((ESCAPE, byte ^ ESCAPED)), bytes((byte,)))
    return received[:-CRC_BYTES] if binascii.crc32(received) == RESIDUE else None
