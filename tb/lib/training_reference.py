"""One training step in exact integers, independent of core, machine model and program."""

import numpy as np

#: Facts of the scheme, see docs/design/training.md.
LOW, ONE, ERROR = 6, 127, 7


def up(sums: np.ndarray, shift: int) -> np.ndarray:
    """Divide by 2 ** shift; halves go up."""
    return (sums + ((1 << shift) >> 1)) >> shift


def away(sums: np.ndarray, shift: int) -> np.ndarray:
    """Divide by 2 ** shift; halves go away from zero."""
    return np.sign(sums) * ((np.abs(sums) + ((1 << shift) >> 1)) >> shift)


def scaled(noise: np.ndarray, shift: int) -> np.ndarray:
    """Return noise of at most eight bits, as wide as a shift."""
    return noise.astype(np.int64) << max(shift - 8, 0)


def spread(noise: np.ndarray, width: int) -> np.ndarray:
    """Return columns of noise repeated up to a width."""
    return np.tile(noise, -(-width // noise.shape[1]))[:, :width]


def high(weights: np.ndarray) -> np.ndarray:
    return np.clip(up(weights, LOW), -127, 127)


def forward(layers, weights, images) -> list[np.ndarray]:
    """Return images, activations, logits."""
    found = [images.astype(np.int64)]
    for number, (layer, w) in enumerate(zip(layers, weights, strict=True)):
        least = -128 if number == len(layers) - 1 else 0
        found.append(np.clip(away(found[-1] @ high(w), layer.shift), least, 127))
    return found


def softmax_error(network, logits, labels, noises) -> np.ndarray:
    """Return right class minus softmax, without its mean, in steps of 1 / ONE."""
    classes = logits.shape[1]
    below = np.maximum(logits - logits.max(1, keepdims=True), -128)
    powers = np.round(ONE * np.exp(below / network.exponent)).astype(np.int64)
    index = np.minimum(up(powers.sum(1) - ONE, 2), 255)
    reciprocals = np.round(ONE * ONE / (ONE + 4 * index)).astype(np.int64)
    error = -reciprocals[:, None] * powers
    error[np.arange(len(labels)), labels] += ONE * ONE
    first, second = (spread(noise, classes).astype(np.int64) for noise in noises)
    error = np.clip(up(error + first, ERROR), -ONE, 127)
    part = min(round(128 / classes), 127 // (classes - 1))
    centred = part * (classes * error - error.sum(1, keepdims=True))
    return np.clip(up(centred + second, ERROR), -ONE, 127)


def stepped(weights: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return weights after a step: high bytes saturate, low ones wrap."""
    both = weights + step
    low = (both + (1 << (LOW - 1))) % (1 << LOW) - (1 << (LOW - 1))
    return (np.clip(up(both, LOW), -127, 127) << LOW) + low


def by_parts(noise: np.ndarray, shape: tuple[int, int], padding: int) -> np.ndarray:
    """Return a number for each column and part of the rows as a matrix of ``shape``."""
    rows = -(-shape[0] // padding) * padding
    each = np.repeat(noise.astype(np.int64), -(-rows // len(noise)), axis=0)
    return each[: shape[0], : shape[1]]


def train_step(network, weights, batch, padding) -> tuple[list[np.ndarray], np.ndarray]:
    """Return weights after a step, and the logits before it.

    ``padding``: multiple that the counts of inputs are rounded up to.
    """
    layers = network.layers
    weights = [w.astype(np.int64) for w in weights]
    found = forward(layers, weights, batch.images)
    error = softmax_error(network, found[-1], batch.labels, batch.rows[:2])
    after = []
    for number in range(len(layers) - 1, -1, -1):
        layer, source, w = layers[number], found[number], weights[number]
        sums = source.T @ error + by_parts(batch.gradient[number], w.shape, padding)
        after.append(stepped(w, up(sums, layer.update_shift)))
        if number:
            noise = scaled(spread(batch.rows[number + 1], w.shape[0]), layer.error_shift)
            back = np.clip(up(error @ high(w).T + noise, layer.error_shift), -ONE, 127)
            error = np.where(source > 0, back, 0)
    return after[::-1], found[-1]
