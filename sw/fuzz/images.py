"""Contents of external memory that programs can use."""

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES


def channels_image(count: int, numbers: np.random.Generator) -> np.ndarray:
    """Return parameters of ``count`` channels as in external memory, uint8, mostly common."""
    raw = np.zeros((count, PARAMETER_BYTES), np.uint8)
    bias = numbers.integers(-(2**31), 2**31, count) >> numbers.integers(0, 31, count)
    multiplier = numbers.integers(0, 2**31, count) | numbers.choice([0, 2**30], count)
    raw[:, 0:4] = bias.astype("<i4").view(np.uint8).reshape(count, 4)
    raw[:, 4:8] = multiplier.astype("<u4").view(np.uint8).reshape(count, 4)
    raw[:, 8] = numbers.choice([0, 0, 1, 5, 31], count)
    raw[:, 9] = numbers.choice([0, 1, 4, 8, 12, 20, 31], count)
    return raw.reshape(-1)


def bytes_image(lanes: int) -> np.ndarray:
    """Return parameters with which a group of lanes extracts one byte of each sum, for all four."""
    raw = np.zeros((4, lanes, PARAMETER_BYTES), np.uint8)
    raw[:, :, 4:8] = np.array([(1 << 31) - 1], "<u4").view(np.uint8)
    raw[:, :, 8] = np.array([0, 8, 16, 24])[:, None]
    raw[:, :, 9] = 24
    return raw.reshape(-1)
