"""Line between a host and the bridge of a system: frames, and the sizes of requests.

See ``docs/reference/link.md``. A frame is its contents, their CRC-32 as zlib computes it, and
``FLAG``. Inside a frame ``ESCAPE`` goes before a changed byte, as in RFC 1662 (HDLC-like framing).
"""

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
