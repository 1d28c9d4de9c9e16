"""Random numbers of a training, drawn by seeds."""

import numpy as np

#: Uses of the generators of random numbers, the last word of their seeds.
SPLIT, WEIGHTS, ORDER, NOISE, CHANGES = range(5)


def generator(seed: int, *words: int) -> np.random.Generator:
    """Return the generator of random numbers of a seed and a use."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))


def order(seed: int, epoch: int, count: int) -> np.ndarray:
    """Return the order of the images in an epoch."""
    return generator(seed, epoch, ORDER).permutation(count)
