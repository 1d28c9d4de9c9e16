"""Random models of one operator that moves elements: copies, lookups, choices, slices, casts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from networks import Chain

from random_networks.cases import Case
from random_networks.draw import Draw

_TYPES = ("int8", "int8", "uint8", "int16", "int32", "int64", "float32")


class _Moving(Draw):
    """A graph under construction with inputs of any types."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.chain = Chain(None)
        self.given: list[np.ndarray] = []
        self.count = self.integer(1, 3)

    def shape(self, least: int = 1, most: int = 4, extent: int = 6) -> tuple[int, ...]:
        """Return a shape of some dimensions."""
        rank = self.integer(least, most)
        return tuple(self.integer(1, extent) for _ in range(rank))

    def axis(self, rank: int) -> int:
        """Return a dimension, counted from either end."""
        return self.integer(-rank, rank - 1)

    def contents(self, shape: Sequence[int], kind: str) -> np.ndarray:
        """Return numbers of a type."""
        if kind == "float32":
            return (self.rng.standard_normal(shape) * 100).astype(np.float32)
        if kind == "bool":
            return self.rng.random(shape) < 0.5
        limits = np.iinfo(kind)
        if self.chance(0.3):
            return self.rng.integers(0, 4, shape).astype(kind)
        return self.rng.integers(limits.min, limits.max, shape, np.dtype(kind), endpoint=True)

    def input(self, name: str, shape: Sequence[int], kind: str, most: int = 0) -> int:
        """Add an input; of whole numbers below ``most`` unless that is 0."""
        quantised = kind in ("int8", "uint8", "int16")
        scale, zero_point = (0.25, 3 * (kind != "int16")) if quantised else (0, 0)
        whole = (self.count, *shape)
        values = self.rng.integers(0, most, whole) if most else self.contents(whole, kind)
        self.given.append(values.astype(kind))
        return self.chain.input(name, shape, scale, zero_point, kind)

    def begin(self, shape: Sequence[int], dtype: str = "int8") -> None:
        """Begin with an input."""
        if hasattr(self, "given"):
            self.input("input", shape, dtype)
        else:
            super().begin(shape, dtype)


def _broadcast(draw: _Moving) -> None:
    shape = draw.shape(most=3)
    source = [1 if draw.chance(0.4) else extent for extent in shape]
    draw.begin(source[draw.integer(0, 1) * (len(source) > 1) :], draw.one_of(*_TYPES, "bool"))
    dims = np.array(shape, draw.one_of("int32", "int64"))
    draw.chain.operator("BROADCAST_TO", shape, [dims])


def _tile(draw: _Moving) -> None:
    shape = draw.shape(extent=4)
    draw.begin(shape, draw.one_of("int8", "uint8", "int32", "int64", "float32", "bool"))
    times = [draw.integer(1, 3) for _ in shape]
    wanted = [a * b for a, b in zip(shape, times, strict=True)]
    draw.chain.operator("TILE", wanted, [np.array(times, draw.one_of("int32", "int64"))])


def _fill(draw: _Moving) -> None:
    draw.begin((), draw.one_of("int8", "int16", "int32", "int64", "float32", "bool"))
    shape = draw.shape()
    dims = np.array(shape, draw.one_of("int32", "int64"))
    draw.chain.operator("FILL", shape, inputs=[dims, draw.chain.number])


def _mirror(draw: _Moving) -> None:
    mode = draw.one_of("REFLECT", "SYMMETRIC")
    shape = draw.shape(extent=5)
    less = mode == "REFLECT"
    margins = np.array(
        [[draw.integer(0, extent - less) for _ in (0, 1)] for extent in shape],
        draw.one_of("int32", "int64"),
    )
    draw.begin(shape, draw.one_of(*_TYPES))
    wanted = [extent + sum(each) for extent, each in zip(shape, margins.tolist(), strict=True)]
    draw.chain.operator("MIRROR_PAD", wanted, [margins], mode=mode)


def _reverse(draw: _Moving) -> None:
    shape = draw.shape()
    draw.begin(shape, draw.one_of("uint8", "int16", "int32", "int64", "float32", "bool"))
    first = draw.integer(0, len(shape) - 1)
    last = draw.integer(first, len(shape) - 1)
    axes = [axis - len(shape) * draw.chance(0.3) for axis in range(first, last + 1)]
    draw.chain.operator("REVERSE_V2", shape, [np.array(axes, np.int32)])


def _indices(draw: _Moving, shape: Sequence[int], most: int, kinds: Sequence[str]) -> Any:
    """Return indices below ``most``, constant or computed."""
    kind = draw.one_of(*kinds)
    if draw.chance(0.5):
        return draw.input("indices", shape, kind, most)
    return draw.rng.integers(0, most, tuple(shape)).astype(kind)


def _gather(draw: _Moving) -> None:
    shape = draw.shape()
    draw.begin(shape, draw.one_of(*_TYPES, "bool"))
    source = draw.chain.number
    axis = draw.axis(len(shape))
    first = axis % len(shape)
    batch = draw.integer(0, first) if draw.chance(0.4) else 0
    rows = (*shape[:batch], *draw.shape(least=0, most=2))
    found = _indices(draw, rows, shape[first], ("int32", "int64", "int16"))
    wanted = (*shape[:first], *rows[batch:], *shape[first + 1 :])
    draw.chain.back_to(source)
    draw.chain.operator("GATHER", wanted, [found], axis=axis, batchDims=batch)


def _gather_nd(draw: _Moving) -> None:
    shape = draw.shape()
    draw.begin(shape, draw.one_of(*_TYPES, "bool"))
    source, depth = draw.chain.number, draw.integer(1, len(shape))
    rows = (*draw.shape(least=0, most=2), depth)
    found = _indices(draw, rows, min(shape[:depth]), ("int32", "int64", "int16"))
    draw.chain.back_to(source)
    draw.chain.operator("GATHER_ND", (*rows[:-1], *shape[depth:]), [found])


def _scatter(draw: _Moving) -> None:
    shape = draw.shape()
    depth = draw.integer(1, len(shape))
    rows = (*draw.shape(least=1, most=2), depth)
    found = _indices(draw, rows, min(shape[:depth]), ("int32",))
    draw.input(
        "updates", (*rows[:-1], *shape[depth:]), draw.one_of("int8", "uint8", "int32", "int64")
    )
    inputs = [found, draw.chain.number, np.array(shape, np.int32)]
    draw.chain.operator("SCATTER_ND", shape, inputs=inputs)


def _lookup(draw: _Moving) -> None:
    shape = draw.shape(least=2)
    rows, kind = draw.integer(1, 8), draw.one_of("int8", "uint8", "float32")
    draw.input("indices", (rows,), "int32", shape[0])
    table = draw.contents(shape, kind)
    meaning: dict[str, Any] = {} if kind == "float32" else {"scale": 0.5, "zero_point": 3}
    number = draw.chain.constant("table", table, **meaning)
    inputs = [draw.chain.number, number]
    draw.chain.operator(
        "EMBEDDING_LOOKUP", (rows, *shape[1:]), inputs=inputs, dtype=kind, **meaning
    )


def _select(draw: _Moving) -> None:
    kind, version = draw.one_of(*_TYPES, "bool"), draw.one_of("SELECT", "SELECT_V2")
    shapes = [draw.shape()] * 3
    if version == "SELECT_V2":
        whole = shapes[0]
        shapes = [
            [1 if draw.chance(0.3) else n for n in whole][draw.integer(0, len(whole)) :]
            if draw.chance(0.5)
            else whole
            for _ in range(3)
        ]
    elif draw.chance(0.4):
        shapes[0] = shapes[0][:1]
    numbers = [
        draw.input(f"input{n}", shape, each)
        for n, (shape, each) in enumerate(zip(shapes, ("bool", kind, kind), strict=True))
    ]
    wanted = np.broadcast_shapes(*shapes) if version == "SELECT_V2" else shapes[1]
    draw.chain.operator(version, wanted, inputs=numbers)


def _top(draw: _Moving) -> None:
    shape = draw.shape(extent=9)
    draw.begin(shape, draw.one_of(*_TYPES))
    count = draw.integer(1, shape[-1])
    wanted = (*shape[:-1], count)
    draw.chain.operator(
        "TOPK_V2", inputs=[draw.chain.number, np.array(count, np.int32)], shapes=[wanted] * 2
    )


def _cast(draw: _Moving) -> None:
    shape, kinds = draw.shape(), (*_TYPES, "bool")
    source, result = draw.one_of(*kinds), draw.one_of(*kinds)
    draw.begin(shape, source)
    if source == "float32":
        draw.given[0] *= np.float32(10.0 ** draw.integer(-2, 8))
    draw.chain.operator("CAST", shape, dtype=result, scale=0, inDataType=source, outDataType=result)


def _slice(draw: _Moving) -> None:
    shape, kind = draw.shape(), draw.one_of(*_TYPES)
    draw.begin(shape, kind)
    first = [draw.integer(0, extent - 1) for extent in shape]
    size = [draw.integer(1, n - start) for n, start in zip(shape, first, strict=True)]
    given = [-1 if a + b == n else b for a, b, n in zip(first, size, shape, strict=True)]
    wide = draw.one_of("int32", "int64")
    draw.chain.operator("SLICE", size, [np.array(first, wide), np.array(given, wide)])


def _strided(draw: _Moving) -> None:
    """Add a STRIDED_SLICE with ellipsis, new axes, dropped dimensions or offsets."""
    shape = draw.shape(extent=7)
    draw.begin(shape, draw.one_of(*_TYPES))
    offset = draw.chance(0.3)
    spec, masks, index = (
        list[Any](),
        dict.fromkeys(("begin", "end", "shrinkAxis", "ellipsis", "newAxis"), 0),
        list[list[int]](),
    )
    dots = -1 if offset else draw.integer(-1, len(shape) - 1)
    covered = draw.integer(1, len(shape) - dots) if dots >= 0 else 0
    axis = 0
    while axis < len(shape):
        bit = 1 << len(index)
        if not offset and draw.chance(0.2) and len(index) + len(shape) - axis < 5:
            masks["newAxis"] |= bit
            index.append([0, 0, 1])
            spec.append(None)
        elif axis == dots and not masks["ellipsis"]:
            masks["ellipsis"] |= bit
            index.append([0, 0, 1])
            spec.append(Ellipsis)
            axis += covered
        else:
            first = draw.integer(0, shape[axis] - 1)
            if draw.chance(0.3):
                masks["shrinkAxis"] |= bit
                index.append([first, first + 1, 1])
                spec.append(first)
            else:
                last, step = draw.integer(first + 1, shape[axis]), draw.integer(1, 3)
                index.append([first, last - first * offset, step])
                spec.append(slice(first, last, step))
            axis += 1
        if axis < len(shape) and draw.chance(0.1) and dots < 0 and not offset:
            break
    wanted = np.empty(shape)[tuple(spec)].shape
    columns = [np.array(column, np.int32) for column in zip(*index, strict=True)]
    options: dict[str, Any] = {f"{name}Mask": value for name, value in masks.items()}
    draw.chain.operator("STRIDED_SLICE", wanted, columns, offset=offset, **options)


def _blocks(draw: _Moving) -> None:
    """Add a SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND of rows alone, or of rows and columns."""
    count = draw.integer(1, 2)
    blocks = [draw.integer(1, 3) for _ in range(count)]
    extents, channels = [draw.integer(1, 6) for _ in blocks], draw.integer(1, 5)
    kind = draw.one_of("int8", "uint8", "int32", "int64", "float32")
    if draw.chance(0.5):
        margins = [
            (first, -(extent + first) % block)
            for extent, block in zip(extents, blocks, strict=True)
            for first in (draw.integer(0, 2),)
        ]
        wanted = [(e + sum(m)) // b for e, m, b in zip(extents, margins, blocks, strict=True)]
        batch = draw.integer(1, 2)
        draw.begin((batch, *extents, channels), kind)
        result = (batch * int(np.prod(blocks)), *wanted, channels)
        name = "SPACE_TO_BATCH_ND"
    else:
        batch = draw.integer(1, 2)
        draw.begin((batch * int(np.prod(blocks)), *extents, channels), kind)
        margins = [
            (0, draw.integer(0, extent * block - 1) // 2)
            for extent, block in zip(extents, blocks, strict=True)
        ]
        wanted = [e * b - sum(m) for e, m, b in zip(extents, margins, blocks, strict=True)]
        result, name = (batch, *wanted, channels), "BATCH_TO_SPACE_ND"
    draw.chain.operator(name, result, [np.array(blocks, np.int32), np.array(margins, np.int32)])


_MAKERS: tuple[Callable[[_Moving], None], ...] = (
    *(_broadcast, _tile, _fill, _mirror, _reverse, _gather, _gather_nd, _scatter, _lookup),
    *(_select, _top, _cast, _cast, _slice, _strided, _strided, _blocks),
)

#: Operators that some case has.
KINDS = {
    *("BROADCAST_TO", "TILE", "FILL", "MIRROR_PAD", "REVERSE_V2", "GATHER", "GATHER_ND"),
    *("SCATTER_ND", "EMBEDDING_LOOKUP", "SELECT", "SELECT_V2", "TOPK_V2", "CAST", "SLICE"),
    *("STRIDED_SLICE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"),
}


def moving(seed: int) -> Case:
    """Return the case of a seed, from 0 on."""
    draw = _Moving(seed)
    _MAKERS[seed % len(_MAKERS)](draw)
    graph = draw.chain.graph()
    if graph.operations[0].kind == "TOPK_V2":
        tensors = list(graph.tensors)
        number = graph.operations[0].outputs[1]
        indices = replace(tensors[number], dtype=np.dtype(np.int32), quantization=None)
        tensors[number] = indices
        graph = replace(graph, tensors=tuple(tensors))
    name = " ".join(operation.kind for operation in graph.operations)
    return Case(seed=seed, name=name, graph=graph, inputs=tuple(draw.given), batch=1)
