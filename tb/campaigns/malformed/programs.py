"""Program files changed at random: any bytes, the header, or instructions, checksums made good."""

import binascii
import copy
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from celosia.hw.arch import commands
from celosia.hw.arch.commands import WORD_BYTES
from celosia.hw.arch.config import Config
from celosia.sw.ir.program import MAGIC, VERSION
from malformed.seeds import programs
from malformed.values import anywhere, integer, real

_START = len(MAGIC) + 8


def _opened(content: bytes) -> tuple[dict[str, Any], list[bytearray]]:
    """Return header and blobs of a valid program file."""
    (length,) = struct.unpack_from("<I", content, _START - 4)
    header = json.loads(content[_START : _START + length])
    blobs, offset = [], _START + length
    for count in _counts(header):
        blobs.append(bytearray(content[offset : offset + count]))
        offset += count
    return header, blobs


def _entries(step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of the sections of a step of the core, in the order of their blobs."""
    return [*step["core"]["setup"], *step["core"]["main"]]


def _counts(header: dict[str, Any]) -> Iterator[int]:
    """Yield the bytes of each blob."""
    for step in header["steps"]:
        if "core" in step:
            yield from (entry["bytes"] for entry in _entries(step))
        else:
            sources = step["host"]["sources"]
            yield from (o["data"] for o in sources if o["data"] is not None)
    yield from (segment["bytes"] for segment in header["segments"])


def _closed(header: Any, blobs: Sequence[bytearray]) -> bytes:
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return summed(b"".join([MAGIC, struct.pack("<II", VERSION, len(text)), text, *blobs]))


def summed(content: bytes) -> bytes:
    """Return contents followed by their checksum."""
    return content + struct.pack("<I", binascii.crc32(content))


def _in_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change any bytes; most often with a right checksum."""
    whole = rng.random() < 0.1
    result = bytearray(content if whole else content[:-4])
    for _ in range(rng.choice((1, 1, 2, 3))):
        anywhere(result, rng, rng.choice(programs()))
    return bytes(result) if whole else summed(bytes(result))


def _in_front(content: bytes, rng: random.Random) -> bytes:
    """Change version or length of the header."""
    result = bytearray(content[:-4])
    offset = rng.choice((_START - 8, _START - 4, _START - 4))
    (old,) = struct.unpack_from("<I", result, offset)
    struct.pack_into("<I", result, offset, integer(rng, 32, old))
    return summed(bytes(result))


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value in a header."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _leaves(value[key])


def _drawn(value: Any, rng: random.Random) -> Any:
    """Return a different value, most often of the same type."""
    if rng.random() < 0.15:
        return rng.choice((None, True, -1, 0.5, 1e300, "", "x", [], {}, [0], 10**30, "\ud800"))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        number = integer(rng, rng.choice((8, 16, 32, 64)), value)
        return number if rng.random() < 0.8 else -number
    if isinstance(value, float):
        return real(rng, value)
    if isinstance(value, str):
        return rng.choice(("", "int8", "uint8", "float32", "object", "V9", "SAME", value * 50))
    return value


def _in_header(content: bytes, rng: random.Random) -> bytes:
    header, blobs = _opened(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        known = list(_leaves(header))
        container, key = rng.choice(known)
        other, source_key = rng.choice(known)
        match rng.choices(("draw", "copy", "delete", "add"), (6, 2, 1, 1))[0]:
            case "draw":
                container[key] = _drawn(container[key], rng)
            case "copy":
                container[key] = copy.deepcopy(other[source_key])
            case "delete":
                del container[key]
            case "add" if isinstance(container, list):
                container.insert(key, copy.deepcopy(other[source_key]))
            case "add":
                container[rng.choice(("x", "name", "data", "host"))] = copy.deepcopy(
                    other[source_key]
                )
    if rng.random() < 0.7:
        try:
            header["fingerprint"] = Config(**header["config"]).fingerprint
        except (TypeError, ValueError, KeyError, OverflowError):
            pass
    return _closed(header, blobs)


def _word(blob: bytearray, rng: random.Random) -> slice:
    start = rng.randrange(len(blob) // WORD_BYTES) * WORD_BYTES
    return slice(start, start + WORD_BYTES)


def _field(blob: bytearray, rng: random.Random) -> None:
    """Set a field of an instruction to another value that its bits can hold."""
    try:
        program = commands.decode(bytes(blob))
    except ValueError:
        return
    if not program:
        return
    number = rng.randrange(len(program))
    found = program[number]
    name = rng.choice(list(found.fields))
    value = found.fields[name]
    for bits in (8, 16, 32) if rng.random() < 0.5 else (32, 16, 8, 4, 2, 1):
        try:
            program[number] = found.but(**{name: integer(rng, bits, value)})
        except ValueError:
            continue
        blob[:] = commands.encode(program)
        return


def _bits(blob: bytearray, rng: random.Random) -> None:
    where = _word(blob, rng)
    for _ in range(rng.choice((1, 1, 2, 8))):
        blob[where.start + rng.randrange(WORD_BYTES)] ^= 1 << rng.randrange(8)


def _swapped(blob: bytearray, rng: random.Random) -> None:
    first, second = _word(blob, rng), _word(blob, rng)
    blob[first], blob[second] = blob[second], blob[first]


def _copied(blob: bytearray, rng: random.Random) -> None:
    blob[_word(blob, rng)] = blob[_word(blob, rng)]


_WORDS: Sequence[Callable[[bytearray, random.Random], None]] = (_field, _bits, _swapped, _copied)


def _sections(header: Any, blobs: Sequence[bytearray]) -> Iterator[tuple[Any, bytearray]]:
    """Yield the header's entry and the code of each section."""
    left = iter(blobs)
    for step in header["steps"]:
        if "core" in step:
            yield from ((entry, next(left)) for entry in _entries(step))
        else:
            _ = [next(left) for o in step["host"]["sources"] if o["data"] is not None]


def _in_code(content: bytes, rng: random.Random) -> bytes:
    """Change instructions, which keep their number; or constants."""
    header, blobs = _opened(content)
    code = list(_sections(header, blobs))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if code and rng.random() < 0.9:
            entry, blob = rng.choice(code)
            rng.choices(_WORDS, (5, 2, 1, 1))[0](blob, rng)
            entry["bytes"] = len(blob)
        else:
            blob = rng.choice(blobs) if blobs else bytearray()
            if blob:
                blob[rng.randrange(len(blob))] = rng.randrange(256)
    return _closed(header, blobs)


def changed(rng: random.Random) -> bytes:
    """Return a program file with a random change."""
    content = rng.choice(programs())
    ways = (_in_bytes, _in_front, _in_header, _in_code)
    return rng.choices(ways, (15, 3, 40, 42))[0](content, rng)
