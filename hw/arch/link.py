"""Line between a host and the bridge of a system: frames, and the sizes of requests.

See ``docs/reference/link.md``. A frame is its contents, their CRC-32 as zlib computes it, and
``FLAG``. Inside a frame ``ESCAPE`` goes before a changed byte, as in RFC 1662 (HDLC-like framing).
"""

import binascii

FLAG = 0x7E
ESCAPE = 0x7D
#: Exclusive or of an escaped byte.
ESCAPED = 0x20
CRC_BYTES = 4
#: CRC-32 of anything followed by its own CRC-32.
RESIDUE = 0x2144DF1C

#: Words of a request before its data, words that a bridge keeps of one, and most words of data.
HEADER_WORDS = 2
REQUEST_WORDS = 256
MOST_WORDS = 128
#: Numbers of requests; bit of a response whose request the bus refused.
NUMBERS = 1 << 16
ERROR = 1 << 31


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
