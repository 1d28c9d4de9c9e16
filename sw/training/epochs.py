"""Images of a training, and points of its curve."""

from dataclasses import dataclass

import numpy as np

from celosia.sw.training import batches

#: Points of the curve in an epoch, at most.
_POINTS = 20


@dataclass(frozen=True)
class Images:
    """Images as the network takes them, int8 with the samples first, and their labels.

    ``labels``: classes, or rows of real numbers, the targets of squares.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def ends_point(step: int, count: int, steps: int) -> bool:
    """Return True if a point of the curve ends in the last ``count`` steps before ``step``."""
    points = min(_POINTS, steps)
    return step * points // steps > (step - count) * points // steps


def split(images: np.ndarray, labels: np.ndarray, seed: int) -> tuple[Images, Images]:
    """Return images to train and to validate with: one in twelve, in an order by the seed."""
    shuffled = batches.generator(seed, batches.SPLIT).permutation(len(labels))
    count = max(1, len(labels) // 12)
    first, second = (
        Images(images[part], labels[part]) for part in (shuffled[count:], shuffled[:count])
    )
    return first, second
