"""Random graphs of nested concatenations, as DenseNet and Inception have them."""

from dataclasses import replace
from typing import Any

from networks import Concatenate, Pool

from random_networks.core_layers import convolution, depthwise, pointwise
from random_networks.draw import Draw

#: Most channels of a result.
_CHANNELS = 72


class _Joined:
    """A graph under construction; its results have one quantisation, so that any can be joined."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        draw.begin_image(extent=14, channels=12)
        zero_point = draw.integer(-60, 60)
        self.common = {"output_scale": draw.scale(), "output_zero_point": zero_point}
        self.branch(pool=0)

    def branch(self, pool: float = 0.15) -> None:
        """Add a layer that keeps height and width."""
        draw, same = self.draw, {"padding": "SAME", "stride": (1, 1)}
        if draw.chance(pool):
            draw.add(Pool(window=draw.pair(3), **same))
            return
        maker = (convolution, pointwise, depthwise)[int(draw.rng.choice(3, p=(0.4, 0.4, 0.2)))]
        layer: Any = maker(draw)
        # The sums stay, so the bias does.
        ratio = self.common["output_scale"] / layer.output_scale
        same["activation"] = draw.one_of("NONE", "RELU")
        draw.add(replace(layer, weight_scale=layer.weight_scale * ratio, **same, **self.common))

    def beside(self) -> list[int]:
        """Return the results that can stand beside the last one."""
        draw, tensor = self.draw, self.draw.chain.tensor
        *rows, channels = draw.chain.last.shape
        found = [tensor(number).shape for number in draw.moments]
        alike = [list(shape[:3]) == rows and channels + shape[3] <= _CHANNELS for shape in found]
        return [n for n, there in zip(draw.moments, alike, strict=True) if n and there]

    def join(self, *numbers: int) -> None:
        """Concatenate the last result and others, in any order."""
        draw, tensor = self.draw, self.draw.chain.tensor
        order = draw.rng.permutation([draw.chain.number, *numbers]).tolist()
        if sum(tensor(number).shape[3] for number in order) <= _CHANNELS:
            draw.back_to(order[0])
            others = [tensor(number).name for number in order[1:]]
            draw.add(Concatenate(others=others, axis=3 if draw.chance(0.8) else -1))

    def dense(self) -> None:
        """Add layers, and their result beside what they read."""
        before = self.draw.chain.number
        for _ in range(self.draw.integer(1, 2)):
            self.branch()
        self.join(before)

    def inception(self) -> None:
        """Add branches side by side; a branch may be a concatenation."""
        draw, ends = self.draw, list[int]()
        start = draw.chain.number
        for number in range(draw.integer(2, 3)):
            draw.back_to(start)
            self.branch()
            if number and draw.chance(0.3):
                self.join(ends[-1])
            ends.append(draw.chain.number)
        self.join(*ends[:-1])


def joined(draw: Draw) -> None:
    """Make a graph of concatenations of concatenations."""
    graph = _Joined(draw)
    for _ in range(draw.integer(1, 4)):
        (graph.dense, graph.inception)[draw.integer(0, 1)]()
        others = graph.beside()
        if others and draw.chance(0.4):
            graph.join(others[draw.integer(0, len(others) - 1)])
        if draw.chance(0.25):
            draw.add(Pool(window=(2, 2), stride=(2, 2), padding="SAME"))
    if draw.chance(0.7):
        graph.branch(pool=0)
