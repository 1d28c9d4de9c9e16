"""Random normalisations of rows, attention, and transformer blocks, as converters write them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from networks import Constant, Operand

from random_networks.draw import Draw

_ERF = np.vectorize(math.erf)


class _Block:
    """A graph under construction, with the real values of its results.

    ``real`` (dict of int to array): real values of each result, shape ``(invocations, ...)``. The
    scale and zero point of a result follow from them, as calibration does.
    """

    def __init__(self, draw: Draw, shape: tuple[int, ...]) -> None:
        draw.begin(shape)
        self.draw, self.chain = draw, draw.chain
        start = self.chain.number
        steps = draw.inputs.astype(float) - self.chain.zero_point
        self.real = {start: steps * self.chain.scale}

    def add(
        self,
        kind: str,
        real: np.ndarray,
        *inputs: Operand,
        about: tuple[float, int] | None = None,
        **options: Any,
    ) -> int:
        """Add an operator by the real values of its results; return their number.

        ``about``: scale and zero point, else from the range of the values, some of which are cut.
        """
        if about is None:
            share = float(self.draw.rng.choice([0.8, 1, 1, 1.3]))
            low, high = min(real.min() * share, 0), max(real.max() * share, 0)
            scale = (high - low) / 255 or 1.0
            # Nothing below zero: RSQRT takes no such numbers.
            about = scale, int(np.clip(round(-128 - low / scale), -128, 127))
        scale, zero = about
        self.chain.operator(
            kind, real.shape[1:], inputs=inputs, scale=scale, zero_point=zero, **options
        )
        self.real[self.chain.number] = real
        return self.chain.number

    def constant(self, *shape: int, mean: float = 0.0, spread: float = 1.0) -> tuple[Any, Any]:
        """Return a random constant of int8, and its real values."""
        zero = self.draw.integer(-40, 40)
        scale = (abs(mean) + 3 * spread) / (128 - abs(zero))
        numbers = np.clip(self.draw.rng.normal(mean, spread, shape) / scale + zero, -128, 127)
        steps = numbers.astype(np.int8)
        return Constant(steps, scale, zero), (steps.astype(float) - zero) * scale

    def moved(self, kind: str, source: int, shape: tuple[int, ...], constant: Any) -> int:
        """Add a RESHAPE, or a TRANSPOSE with an order of dimensions."""
        self.chain.back_to(source)
        self.chain.operator(kind, shape, [np.array(constant, np.int32)])
        real = self.real[source]
        if kind == "TRANSPOSE":
            real = real.transpose(0, *(axis + 1 for axis in constant))
        self.real[self.chain.number] = real.reshape(len(real), *shape)
        return self.chain.number

    def pair(self, kind: str, first: int, second: Any, value: Any = None) -> int:
        """Add arithmetic on two results, or on one and a constant with real values."""
        compute = {
            "ADD": np.add,
            "SUB": np.subtract,
            "MUL": np.multiply,
            "SQUARED_DIFFERENCE": lambda x, y: (x - y) ** 2,
        }[kind]
        other = self.real[second] if value is None else value
        return self.add(kind, compute(self.real[first], other), first, second)

    def mean(self, source: int) -> int:
        """Add the mean of each row."""
        real = self.real[source]
        axis = np.array([real.ndim - 2], np.int32)
        return self.add("MEAN", real.mean(axis=-1, keepdims=True), source, axis, keepDims=True)

    def dense(self, source: int, channels: int) -> int:
        """Add FULLY_CONNECTED of each row."""
        real = self.real[source]
        taps = real.shape[-1]
        weights = self.draw.rng.integers(-127, 128, (channels, taps)).astype(np.int8)
        scale = 1 / (73 * math.sqrt(taps))
        bias = self.draw.rng.normal(0, 0.3, channels)
        unit = self.chain.quantization(source).scale * scale
        steps = np.round(bias / unit).astype(np.int32)
        result = real @ (weights.T * scale) + steps * unit
        given = source, Constant(weights, scale), Constant(steps, unit)
        return self.add("FULLY_CONNECTED", result, *given, keepNumDims=True)

    def normalised(self, source: int) -> int:
        """Add a normalisation of rows in one of several forms."""
        channels = self.real[source].shape[-1]
        form = self.draw.one_of("batch", "centred", "centred", "root")
        mean = source if form == "root" else self.mean(source)
        centred = self.pair("SUB", source, mean) if form == "centred" else source
        if form == "batch" or (form == "centred" and self.draw.chance(0.5)):
            square = self.pair("SQUARED_DIFFERENCE", source, mean)
        else:
            square = self.pair("MUL", centred, centred)
        variance = self.mean(square)
        small = Constant(np.array(127, np.int8), 1e-3 / 127)
        variance = self.pair("ADD", variance, small, 1e-3)
        # Of a range that begins at zero.
        inverse = self.add("RSQRT", 1 / np.sqrt(np.maximum(self.real[variance], 1e-3)), variance)
        gamma = self.constant(channels, mean=1.0, spread=0.2)
        beta = self.constant(channels, spread=0.3)
        if form == "batch":
            if self.draw.chance(0.5):
                inverse = self.pair("MUL", inverse, *gamma)
            shift = self.pair("MUL", mean, inverse)
            scaled = self.pair("MUL", source, inverse)
            offset = self._subtracted(beta, shift)
            return self.pair("ADD", scaled, offset)
        scaled = self.pair("MUL", centred, inverse)
        if self.draw.chance(0.8):
            scaled = self.pair("MUL", scaled, *gamma)
        return self.pair("ADD", scaled, *beta) if self.draw.chance(0.8) else scaled

    def _subtracted(self, constant: tuple[Any, Any], number: int) -> int:
        """Add a constant less a result."""
        return self.add("SUB", constant[1] - self.real[number], constant[0], number)

    def heads(self, source: int, heads: int, *, turned: bool = False) -> int:
        """Add the split of rows into heads; ``turned``: rows become columns."""
        batch, rows, channels = self.real[source].shape[1:]
        depth = channels // heads
        shape = batch, rows, heads, depth
        split = self.moved("RESHAPE", source, shape, shape)
        order = (0, 2, 3, 1) if turned else (0, 2, 1, 3)
        return self.moved("TRANSPOSE", split, tuple(shape[n] for n in order), order)

    def product(self, first: int, second: int, *, turned: bool) -> int:
        """Add BATCH_MATMUL of two results; ``turned``: the second one is read transposed."""
        other = self.real[second].swapaxes(-1, -2) if turned else self.real[second]
        real = self.real[first] @ other
        return self.add("BATCH_MATMUL", real, first, second, adjX=False, adjY=turned)

    def attention(self, source: int) -> int:
        """Add attention of the rows to each other, and a projection to as many channels."""
        channels = self.real[source].shape[-1]
        heads = self.draw.integer(1, 3)
        depth = self.draw.integer(1, 20)
        query, key, value = (self.dense(source, heads * depth) for _ in range(3))
        turned = self.draw.chance(0.5)
        first, second = self.heads(query, heads), self.heads(key, heads, turned=not turned)
        scores = self.product(first, second, turned=turned)
        if self.draw.chance(0.7):
            scale = Constant(np.array(127, np.int8), 1 / (127 * math.sqrt(depth)))
            scores = self.pair("MUL", scores, scale, 1 / math.sqrt(depth))
        powers = np.exp(self.real[scores] - self.real[scores].max(axis=-1, keepdims=True))
        shares = powers / powers.sum(axis=-1, keepdims=True)
        shares = self.add("SOFTMAX", shares, scores, about=(1 / 256, -128), beta=1.0)
        result = self.product(shares, self.heads(value, heads), turned=False)
        batch, _, rows, depth = self.real[result].shape[1:]
        order = (0, 2, 1, 3)
        joined = self.moved("TRANSPOSE", result, (batch, rows, heads, depth), order)
        shape = (batch, rows, heads * depth)
        return self.dense(self.moved("RESHAPE", joined, shape, shape), channels)

    def gated(self, source: int) -> int:
        """Add two layers of each row with a smooth function between them."""
        channels = self.real[source].shape[-1]
        wide = self.dense(source, self.draw.integer(1, 40))
        real = self.real[wide]
        if self.draw.chance(0.5):
            result = self.add("GELU", real * 0.5 * (1 + _ERF(real / math.sqrt(2))), wide)
        else:
            shares = 1 / (1 + np.exp(-real))
            shares = self.add("LOGISTIC", shares, wide, about=(1 / 256, -128))
            result = self.pair("MUL", wide, shares)
        return self.dense(result, channels)


def _norm(block: _Block, source: int) -> int:
    """Add a normalisation, and a layer after it now and then."""
    result = block.normalised(source)
    return block.dense(result, block.draw.few(20)) if block.draw.chance(0.3) else result


def _attention(block: _Block, source: int) -> int:
    return block.attention(source)


def _whole(block: _Block, source: int) -> int:
    """Add a transformer block, with normalisation before or after its parts."""
    before = block.draw.chance(0.6)
    for part in (block.attention, block.gated):
        result = part(block.normalised(source) if before else source)
        source = block.pair("ADD", source, result)
        source = source if before else block.normalised(source)
    return source


def transformers(draw: Draw) -> None:
    """Make a graph of a normalisation, attention, or a transformer block."""
    makers: tuple[Callable[[_Block, int], int], ...] = (_norm, _attention, _whole)
    make = makers[int(draw.rng.choice(len(makers), p=(0.4, 0.2, 0.4)))]
    rows, channels = draw.integer(2, 24), draw.integer(2, 40)
    shape = (1, rows, channels)
    if make is _norm and draw.chance(0.3):
        shape = (1, draw.integer(2, 6), draw.integer(2, 6), channels)
    block = _Block(draw, shape)
    make(block, block.chain.number)
