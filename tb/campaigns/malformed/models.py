"""Model files with random changes: of any bytes, of numbers the reader uses, of the graph."""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from flatbuffers import encode
from networks import Graph, Quantization, Tensor, serialize

from celosia.sw.frontend.tflite import load
from malformed.seeds import graphs, models
from malformed.values import anywhere, integer, real, real_bytes


class Slot(NamedTuple):
    """Number in a file: its offset, its bytes, and True for floating point."""

    start: int
    width: int
    floating: bool


@cache
def slots(content: bytes) -> tuple[Slot, ...]:
    """Return all numbers of a model file that the reader looks at, offsets and lengths included."""
    found: dict[int, Slot] = {}
    get, vector = encode.Get, encode.GetVectorAsNumpy

    def one(packer: struct.Struct, buffer: bytes, start: int) -> Any:
        floating = packer.format in ("<f", "<d")
        found.setdefault(start, Slot(start, packer.size, floating))
        return get(packer, buffer, start)

    def several(dtype: Any, buffer: bytes, count: int, start: int) -> np.ndarray:
        array = vector(dtype, buffer, count, start)
        for number in range(count):
            offset = start + number * array.itemsize
            found.setdefault(offset, Slot(offset, array.itemsize, array.dtype.kind == "f"))
        return array

    with patch.object(encode, "Get", one), patch.object(encode, "GetVectorAsNumpy", several):
        load(content)
    return tuple(found[start] for start in sorted(found))


def _read(content: bytearray, slot: Slot) -> bytes:
    return bytes(content[slot.start : slot.start + slot.width])


def _write(content: bytearray, slot: Slot, data: bytes) -> None:
    """Overwrite a number, if the file still contains it."""
    if slot.start + slot.width <= len(content):
        content[slot.start : slot.start + slot.width] = data


def _drawn(rng: random.Random, slot: Slot, old: bytes) -> bytes:
    """Return other contents of a number."""
    if slot.floating:
        (near,) = struct.unpack("<f" if slot.width == 4 else "<d", old)
        return real_bytes(real(rng, near), slot.width)
    number = integer(rng, 8 * slot.width, int.from_bytes(old, "little"))
    return number.to_bytes(slot.width, "little")


def _one(content: bytearray, rng: random.Random, known: Sequence[Slot]) -> None:
    """Change a number."""
    slot = rng.choice(known)
    _write(content, slot, _drawn(rng, slot, _read(content, slot)))


def _copied(content: bytearray, rng: random.Random, known: Sequence[Slot]) -> None:
    """Copy a number over another."""
    slot = rng.choice(known)
    like = [other for other in known if other[1:] == slot[1:]]
    _write(content, slot, _read(content, rng.choice(like)))


def _everywhere(content: bytearray, rng: random.Random, known: Sequence[Slot]) -> None:
    """Change all numbers with the same value: an extent, an index, a scale."""
    slot = rng.choice(known)
    old = _read(content, slot)
    new = _drawn(rng, slot, old)
    for other in known:
        if other[1:] == slot[1:] and _read(content, other) == old:
            _write(content, other, new)


def _in_places(content: bytes, rng: random.Random) -> bytes:
    known, result = slots(content), bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choices((_one, _copied, _everywhere), (5, 2, 3))[0](result, rng, known)
    return bytes(result)


def _in_bytes(content: bytes, rng: random.Random) -> bytes:
    result = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        anywhere(result, rng, rng.choice(models()))
    return bytes(result)


def _resized(tensor: Tensor, old: int, new: int) -> Tensor:
    """Return a tensor with extents ``new`` instead of ``old``, in contents and scales as well."""
    shape = tuple(new if extent == old else extent for extent in tensor.shape)
    data, quantization = tensor.data, tensor.quantization
    if data is not None and shape != tensor.shape:
        data = np.resize(data, shape)
    if quantization is not None and len(quantization.scales) == old > 1:
        scales = np.resize(quantization.scales, new)
        zeros = np.resize(quantization.zero_points, new)
        quantization = Quantization(scales, zeros, quantization.axis)
    return replace(tensor, shape=shape, data=data, quantization=quantization)


def _extent(graph: Graph, rng: random.Random) -> Graph:
    """Make all extents of one size another size, everywhere."""
    extents = [extent for tensor in graph.tensors for extent in tensor.shape]
    old = rng.choice(extents)
    new = rng.choice((1, 2, 3, 5, 16, 17, 31, 64, 100, 255, 1 + rng.randrange(300)))
    biggest = max(
        (len(t.shape) and t.data is not None and t.elements // old ** t.shape.count(old))
        * new ** t.shape.count(old)
        for t in graph.tensors
    )
    if biggest > 1 << 18:
        return graph
    return replace(graph, tensors=tuple(_resized(t, old, new) for t in graph.tensors))


def _meaning(graph: Graph, rng: random.Random) -> Graph:
    """Change the quantisation of a tensor, or of all with its scale."""
    known = [t.quantization for t in graph.tensors if t.quantization is not None]
    chosen = rng.choice(known)
    scales, zeros = chosen.scales.copy(), chosen.zero_points.copy()
    if rng.random() < 0.7:
        index = rng.randrange(len(scales))
        scales[index if rng.random() < 0.5 else slice(None)] = np.frombuffer(
            real_bytes(real(rng, float(scales[index])), 4), np.float32
        )[0]
    else:
        zeros[:] = rng.choice((-128, 127, -129, 128, 0, 255, 1 << 31, rng.randint(-128, 127)))
    new = Quantization(scales, zeros, chosen.axis)
    alike = rng.random() < 0.5
    tensors = tuple(
        replace(t, quantization=new)
        if t.quantization is chosen or (alike and chosen.equals(t.quantization))
        else t
        for t in graph.tensors
    )
    return replace(graph, tensors=tensors)


def _contents(graph: Graph, rng: random.Random) -> Graph:
    """Change the contents of a constant: ends of its type, all the same, or some other."""
    numbers = [n for n, t in enumerate(graph.tensors) if t.data is not None and t.data.size]
    if not numbers:
        return graph
    chosen = rng.choice(numbers)
    data = np.array(graph.tensors[chosen].data)
    limits = np.iinfo(data.dtype)
    values = [limits.min, limits.max, 0, 1, -1, rng.randint(limits.min, limits.max)]
    where = slice(None) if rng.random() < 0.4 else rng.randrange(data.size)
    data.reshape(-1)[where] = rng.choice(values)
    tensors = list(graph.tensors)
    tensors[chosen] = replace(tensors[chosen], data=data)
    return replace(graph, tensors=tuple(tensors))


def _option(graph: Graph, rng: random.Random) -> Graph:
    """Change an option of an operator, or an input."""
    index = rng.randrange(len(graph.operations))
    operation = graph.operations[index]
    inputs, options = list(operation.inputs), dict(operation.options)
    if options and rng.random() < 0.7:
        name = rng.choice(list(options))
        options[name] = _other(options[name], rng)
    elif inputs:
        inputs[rng.randrange(len(inputs))] = rng.randrange(-1, len(graph.tensors))
    operations = list(graph.operations)
    operations[index] = replace(operation, inputs=tuple(inputs), options=options)
    return replace(graph, operations=tuple(operations))


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, 0, 1, 100, 2 * value))
    if isinstance(value, float):
        return real(rng, value)
    choices = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "SAME", "VALID")
    return rng.choice(choices) if isinstance(value, str) else value


_GRAPHS: Sequence[Callable[[Graph, random.Random], Graph]] = (_extent, _meaning, _contents, _option)


def _in_graph(content: bytes, rng: random.Random) -> bytes:
    """Change the graph and write it anew, so that the file itself is whole."""
    graph = graphs()[models().index(content)]
    try:
        for _ in range(rng.choice((1, 1, 2, 4))):
            graph = rng.choices(_GRAPHS, (3, 4, 3, 3))[0](graph, rng)
        return serialize(graph)
    except (ValueError, TypeError, OverflowError, KeyError, struct.error):
        # The writer cannot represent it.
        return _in_places(content, rng)


def changed(rng: random.Random) -> bytes:
    """Return a model file with a random change."""
    content = rng.choice(models())
    ways = (_in_bytes, _in_places, _in_graph)
    return rng.choices(ways, (2, 4, 4))[0](content, rng)
