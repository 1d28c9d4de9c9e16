"""Random numbers for small models."""

from collections.abc import Sequence

import numpy as np
from networks import Chain, Layer


class Draw:
    """Random numbers of one case, and the graph under construction.

    ``few_bits``: true if scales have few bits, which makes many sums exact halves; ``chain``: the
    graph; ``inputs`` (array of shape (invocations, ...)): input of the graph; ``more`` (list of
    arrays): further inputs; ``mean``, ``spread``: approximate mean and deviation of the last
    results, from their zero point. The function of a layer sets them for its results; ``moments``
    (dict of int to (float, float)): the same for every result, by its number.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.few_bits = self.chance(0.25)
        self.more: list[np.ndarray] = []
        self.begin((1,))

    def chance(self, share: float) -> bool:
        """Return true in that share of cases."""
        return bool(self.rng.random() < share)

    def integer(self, least: int, most: int) -> int:
        """Return a whole number from ``least`` to ``most``."""
        return int(self.rng.integers(least, most + 1))

    def pair(self, most: int) -> tuple[int, int]:
        """Return two numbers from 1 to ``most``, equal in half of the cases."""
        first = self.integer(1, most)
        return first, first if self.chance(0.5) else self.integer(1, most)

    def few(self, most: int) -> int:
        """Return a number from 1 to ``most``, small ones more often."""
        return int(np.exp(self.rng.uniform(0, np.log(most + 1))))

    def one_of(self, *values: str) -> str:
        """Return one of some names."""
        return str(self.rng.choice(values))

    def scale(self) -> float:
        """Return a scale."""
        if self.few_bits:
            return float(self.integer(1, 15) * 2.0 ** -self.integer(5, 9))
        return float(np.float32(self.rng.uniform(0.003, 0.3)))

    def about(self, scale: float) -> float:
        """Return a scale of half to twice that size."""
        size = scale * float(2.0 ** self.rng.uniform(-0.5, 0.5))
        if not self.few_bits:
            return size
        exponent = int(np.floor(np.log2(size))) - 3
        return round(size * 2.0**-exponent) * 2.0**exponent

    def near(self, scale: float) -> float:
        """Return a scale of a quarter to twice that size."""
        return self.about(scale * float(2.0 ** self.rng.uniform(-1.5, 0.5)))

    def zero_point(self) -> int:
        """Return a zero point, often one of the ends."""
        return int(self.rng.choice([-128, 127, 0, *self.rng.integers(-128, 128, 5)]))

    def int8(self, shape: Sequence[int]) -> np.ndarray:
        """Return contents: all of int8, or numbers near one another, sometimes the ends."""
        if self.chance(0.05):
            return self.rng.choice(np.array([-128, 127], np.int8), tuple(shape))
        reach = self.integer(2, 20) if self.chance(0.15) else 128
        return self.rng.integers(-reach, reach, tuple(shape)).astype(np.int8)

    def begin(self, shape: Sequence[int], dtype: str = "int8") -> None:
        """Begin a graph whose input has a shape and type."""
        scale, zero_point = self.scale(), self.zero_point()
        self.chain = Chain(shape, scale, zero_point + 128 * (dtype == "uint8"), dtype)
        self.inputs = self.int8((self.integer(1, 3), *shape))
        if dtype == "float32":
            self.inputs = self.inputs * np.float32(self.scale())
        elif dtype == "uint8":
            self.inputs = self.inputs.view(np.uint8)
        values = self.inputs.astype(float)
        self.mean = float(np.mean(values)) - (self.chain.zero_point if dtype == "int8" else 0)
        self.spread = float(np.std(values)) + 1
        self.moments = {self.chain.number: (self.mean, self.spread)}

    def begin_image(self, extent: int = 20, channels: int = 70, dtype: str = "int8") -> None:
        """Begin a graph whose input is an image, most often of batch 1."""
        batch = self.integer(2, 3) if self.chance(0.3) else 1
        self.begin((batch, *self.pair(extent), self.few(channels)), dtype)

    def add(self, layer: Layer) -> None:
        """Add a layer."""
        layer.add(self.chain)
        for number in self.chain.results:
            self.moments[number] = (self.mean, self.spread)

    def back_to(self, number: int) -> None:
        """Let the next layer read an earlier result."""
        self.chain.back_to(number)
        self.mean, self.spread = self.moments[number]

    def others(self) -> list[int]:
        """Return the numbers of earlier results that have the shape of the last one."""
        tensor, last = self.chain.tensor, self.chain.number
        return [n for n in self.moments if n != last and tensor(n).shape == tensor(last).shape]
