"""Addresses of a matrix product whose inputs and weights are streamed, part by part."""

from celosia.hw.arch.config import Config
from celosia.sw.training.step.places import Area, Block, Matrix, balanced

#: Places for the weights of a part and block: two chunks in flight, and the two after them.
_PAIRS = 4


class Streamed:
    """The first matrix product after convolutions.

    Its inputs are the rows of an image in external memory. The errors of these inputs lie there,
    too. A part is a range of inputs, with the rows of the weights that multiply them.

    ``number``: of the layer; ``count``, ``outputs``: inputs and outputs, in whole tiles;
    ``inputs``: matrices of a part of the inputs, which take turns; ``results``: of their errors;
    ``turned``: high bytes of a block, of which columns can be read; ``blocks``: by part;
    ``external``: inputs in external memory, image by image.
    """

    external = 0

    def __init__(self, number: int, count: int, outputs: int, batch: int, config: Config) -> None:
        self.number = number
        self.count = count
        self.outputs = outputs
        self.batch = batch
        self.size = config.rows
        self.rows = config.accumulator_depth // self.size * self.size
        self.bytes = config.unified_bytes
        self.parts: list[tuple[int, int]] = []

    def limit(self, tiles: int) -> None:
        """Limit the parts to those whose weights fit so many tiles."""
        fitting = tiles // (self.outputs // self.size) * self.size
        self.rows = max(self.size, min(self.rows, fitting))

    @property
    def part_tiles(self) -> int:
        """Tiles of one block of the largest part."""
        return min(self.rows, self.count) // self.size

    def place(self, base: int, weights: tuple[int, ...]) -> int:
        """Choose the parts: as few as fit the unified buffer from ``base`` on; return the end."""
        while True:
            self.parts = balanced(self.count, self.rows, self.size)
            end = self._place(base, weights)
            if end <= self.bytes or self.rows == self.size:
                return end
            self.rows -= self.size

    def _place(self, base: int, weights: tuple[int, ...]) -> int:
        rows, size, batch = self.parts[0][1], self.size, self.batch
        space = Area(size, base)
        self.inputs = [space.matrix(batch, rows + 1) for _ in "01"]
        pairs = [space.pair(rows, size) for _ in range(_PAIRS)]
        self.blocks: list[list[Block]] = []
        turn = 0
        for first, _ in self.parts:
            blocks = []
            for j in range(self.outputs // size):
                offset = (j * self.count + first) * size
                addresses = (address + offset for address in weights)
                blocks.append(Block(self.number, j, *pairs[turn % _PAIRS], *addresses))
                turn += 1
            self.blocks.append(blocks)
        errors = Area(size, base)
        self.turned = [errors.matrix(rows, size + 1) for _ in "01"]
        self.results: list[Matrix] = [errors.matrix(batch, rows) for _ in "01"]
        return max(space.end, errors.end)
