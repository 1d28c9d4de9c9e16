"""Host link: frames, requests and responses, shared by gateware, driver and model.

See ``docs/reference/link.md``. Framing is that of RFC 1662 (HDLC-like): ``FLAG`` around each frame,
``ESCAPE`` inside; the checksum is the CRC-32 of zlib.
"""

import binascii
from dataclasses import dataclass

from amaranth.lib import enum

from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS

VERSION = 1
FLAG = 0x7E
ESCAPE = 0x7D
#: Exclusive or of an escaped byte.
ESCAPED = 0x20
#: Added to the operation in a response.
RESPONSE = 0x80
CRC_BYTES = 4
HEADER_BYTES = 8
RESPONSE_BYTES = 3
INFO_BYTES = 8
#: Bytes of a slot besides data: header, CRC, padding to a multiple of 16.
SLOT_OVERHEAD = 16
#: Words of a request before its data, and words that a bridge keeps of one; most words of data.
HEADER_WORDS = 2
REQUEST_WORDS = 256
MOST_WORDS = 128
#: Numbers of requests; bit of a response whose request the bus refused.
NUMBERS = 1 << 16
ERROR = 1 << 31
#: CRC-32 of anything followed by its own CRC-32.
RESIDUE = 0x2144DF1C


class Operation(enum.Enum, shape=7):
    """Operation of a request. ``NONE`` is that of responses to damaged frames."""

    NONE = 0
    INFO = 1
    READ = 2
    WRITE = 3
    READ_REGISTERS = 4
    WRITE_REGISTERS = 5


class Status(enum.Enum, shape=8):
    """Result of a request."""

    OK = 0
    BUS_ERROR = 1
    BAD_REQUEST = 2
    BAD_FRAME = 3


WRITES = (Operation.WRITE, Operation.WRITE_REGISTERS)


class FrameError(ValueError):
    """Frame with a wrong checksum, length or contents; the message is one line."""


@dataclass(frozen=True)
class Request:
    """Request of the host.

    Parameters
    ----------
    sequence : int
        Number, 0 to 255.
    operation : Operation or int
        Operation; a number if this protocol does not have it.
    address : int
        First byte, 0 to 2**32 − 1.
    count : int
        Bytes to move, 0 to 65535; at least 1 in a valid request.
    data : bytes
        ``count`` bytes for a write, else none.
    """

    sequence: int
    operation: Operation | int
    address: int = 0
    count: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class Response:
    """Response to a request; ``data`` holds the bytes read, none unless ``status`` is OK."""

    sequence: int
    operation: Operation | int
    status: Status
    data: bytes = b""


@dataclass(frozen=True)
class Info:
    """Properties of a link, as its far end reports them.

    Parameters
    ----------
    version : int
        Version of the protocol.
    slots : int
        Requests that may wait at the far end.
    payload_bytes : int
        Most bytes that one request moves.
    memory_bytes : int
        External memory, 0 where it is not known.
    """

    version: int
    slots: int
    payload_bytes: int
    memory_bytes: int

    def encode(self) -> bytes:
        """Return the ``INFO_BYTES`` bytes of a response to INFO."""
        return (
            bytes((self.version, self.slots))
            + self.payload_bytes.to_bytes(2, "little")
            + self.memory_bytes.to_bytes(4, "little")
        )

    @classmethod
    def decode(cls, data: bytes) -> "Info":
        """Return the contents of a response to INFO; raises FrameError if its length is wrong."""
        if len(data) != INFO_BYTES:
            raise FrameError(f"info: wanted {INFO_BYTES} bytes, got {len(data)}")
        return cls(
            data[0],
            data[1],
            int.from_bytes(data[2:4], "little"),
            int.from_bytes(data[4:], "little"),
        )


def frame(contents: bytes) -> bytes:
    """Return the bytes on the line of a frame with ``contents`` and their checksum.

    Examples
    --------
    >>> frame(bytes((1, FLAG))).hex(" ")
    '7e 01 7d 5e 85 7f 7f ef 7e'
    """
    raw = contents + binascii.crc32(contents).to_bytes(CRC_BYTES, "little")
    stuffed = bytearray((FLAG,))
    for byte in raw:
        stuffed += bytes((ESCAPE, byte ^ ESCAPED)) if byte in (FLAG, ESCAPE) else bytes((byte,))
    stuffed.append(FLAG)
    return bytes(stuffed)


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


class Deframer:
    """Splits received bytes into frames, as the gateware does.

    A frame of more than ``limit`` bytes counts as damaged.

    Parameters
    ----------
    limit : int
        Most bytes of a frame, checksum included.
    """

    def __init__(self, limit: int = 1 << 17) -> None:
        self.limit = limit
        self._content = bytearray()
        self._length = 0
        self._escaped = False

    def feed(self, received: bytes) -> list[bytes | None]:
        """Return the contents of every frame that ends in ``received``, None for a damaged one."""
        frames: list[bytes | None] = []
        for byte in received:
            if byte == FLAG:
                if self._length:
                    frames.append(self._close())
                self._content, self._length, self._escaped = bytearray(), 0, False
            elif byte == ESCAPE:
                self._escaped = True
            else:
                self._length += 1
                if self._length <= self.limit:
                    self._content.append(byte ^ ESCAPED if self._escaped else byte)
                self._escaped = False
        return frames

    def _close(self) -> bytes | None:
        good = CRC_BYTES < self._length <= self.limit
        good = good and binascii.crc32(self._content) == RESIDUE
        return bytes(self._content[:-CRC_BYTES]) if good else None


def _operation(number: int) -> Operation | int:
    try:
        return Operation(number)
    except ValueError:
        return number


def _number(operation: Operation | int) -> int:
    return operation.value if isinstance(operation, Operation) else operation


def encode_request(request: Request) -> bytes:
    """Return the contents of a request's frame."""
    header = bytes((request.sequence, _number(request.operation)))
    header += request.count.to_bytes(2, "little") + request.address.to_bytes(4, "little")
    return header + request.data


def decode_request(contents: bytes) -> Request:
    """Return the request in a valid frame.

    Raises
    ------
    FrameError
        If it is shorter than a header.
    """
    if len(contents) < HEADER_BYTES:
        raise FrameError(f"request: wanted at least {HEADER_BYTES} bytes, got {len(contents)}")
    return Request(
        contents[0],
        _operation(contents[1]),
        int.from_bytes(contents[4:8], "little"),
        int.from_bytes(contents[2:4], "little"),
        contents[HEADER_BYTES:],
    )


def encode_response(response: Response) -> bytes:
    """Return the contents of a response's frame."""
    header = (response.sequence, _number(response.operation) | RESPONSE, response.status.value)
    return bytes(header) + response.data


def decode_response(contents: bytes) -> Response:
    """Return the response in a valid frame.

    Raises
    ------
    FrameError
        If it is too short, or not a response, or its status is unknown.
    """
    if len(contents) < RESPONSE_BYTES or not contents[1] & RESPONSE:
        raise FrameError(f"response: wanted a header with bit 7 set, got {contents[:3].hex(' ')}")
    try:
        status = Status(contents[2])
    except ValueError:
        raise FrameError(f"response: wanted a known status, got {contents[2]}") from None
    return Response(
        contents[0], _operation(contents[1] & ~RESPONSE), status, contents[RESPONSE_BYTES:]
    )


def fault(request: Request, payload_bytes: int) -> bool:
    """Return True if the far end refuses a request as BAD_REQUEST.

    Parameters
    ----------
    request : Request
        The request.
    payload_bytes : int
        Most bytes that a request may move.
    """
    if not isinstance(request.operation, Operation) or request.operation is Operation.NONE:
        return True
    registers = request.operation in (Operation.READ_REGISTERS, Operation.WRITE_REGISTERS)
    wanted = request.count if request.operation in WRITES else 0
    return (
        not 1 <= request.count <= payload_bytes
        or len(request.data) != wanted
        or request.address + request.count > 1 << (REGISTER_ADDRESS_BITS if registers else 32)
        or (registers and bool(request.address % 4 or request.count % 4))
        or (request.operation is Operation.INFO and request.count != INFO_BYTES)
    )
