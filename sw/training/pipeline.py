"""Input pipeline of a training: batches prepared while the core works, images changed at random."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Changes of images.
AUGMENTATIONS = ("shift", "flip")
#: Batches that are prepared ahead.
_AHEAD = 4
#: Part of the rows and columns by which images are shifted at most.
_SHIFTED = 8


def ahead(items: Iterable[Item], prepare: Callable[[Item], Result]) -> Iterator[Result]:
    """Yield the results of a function in order; a thread prepares some ahead."""
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(prepare, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def augmented(
    images: np.ndarray, changes: Collection[str], random: np.random.Generator
) -> np.ndarray:
    """Return images, changed at random.

    - ``images``: batch, rows, columns, channels.
    - ``changes``: of ``AUGMENTATIONS``. A flip exchanges left and right of half of the images. A
      shift moves them by up to an eighth of their rows and columns; zeros come in.
    """
    count, *extents = images.shape[:3]
    if "flip" in changes:
        is_flipped = random.random(count) < 0.5
        images = np.where(is_flipped[:, None, None, None], images[:, :, ::-1], images)
    if "shift" in changes:
        limits = [extent // _SHIFTED for extent in extents]
        padded = np.pad(images, [(0, 0), *((n, n) for n in limits), (0, 0)])
        rows, columns = (
            random.integers(0, 2 * n + 1, (count, 1)) + np.arange(extent)
            for n, extent in zip(limits, extents, strict=True)
        )
        images = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]]
    return images
