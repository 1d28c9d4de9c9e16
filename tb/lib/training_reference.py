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


def is_conv(layer) -> bool:
    return hasattr(layer, "kernel")


def exact(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Multiply matrices of integers; all sums are below 2 ** 53."""
    return (one.astype(np.float64) @ two.astype(np.float64)).astype(np.int64)


def patches(images: np.ndarray, kernel: int, padding: int) -> np.ndarray:
    """Return the pixels under the kernel: ``(batch, height, width, kernel, kernel, channels)``."""
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    found = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    return found.transpose(0, 1, 2, 4, 5, 3)


def convolved(layer, w, images) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the weights multiply, results by window, and their maxima.

    Shapes ``(batch * pixels, rows)``, ``(batch, height, pool, width, pool, outputs)``, ``(batch,
    height, width, outputs)``.
    """
    (height, width), pool = layer.pooled, layer.pool
    images = images.reshape(-1, layer.height, layer.width, layer.inputs)
    found = patches(images, layer.kernel, layer.padding)[:, : height * pool, : width * pool]
    taps = found.reshape(-1, layer.rows)
    halves = up(exact(taps, high(w)), 1)
    results = np.clip(away(halves, layer.shift - 1), 0, 127)
    results = results.reshape(len(images), height, pool, width, pool, layer.outputs)
    return taps, results, results.max((2, 4))


def forward(layers, weights, images, dropped=()) -> list[np.ndarray]:
    """Return images, activations of each layer, logits.

    ``dropped``: True for the activations that are 0, for each layer with dropout. What remains
    counts twice in the layer after it.
    """
    found, dropped, doubled = [images.astype(np.int64)], iter(dropped), 0
    for number, (layer, w) in enumerate(zip(layers, weights, strict=True)):
        if is_conv(layer):
            found.append(convolved(layer, w, found[-1])[2])
            continue
        least = -128 if number == len(layers) - 1 else 0
        source = found[-1].reshape(len(images), -1)
        sums = away(exact(source, high(w)), layer.shift - doubled)
        found.append(np.clip(sums, least, 127))
        doubled = int(layer.dropout)
        if layer.dropout:
            found[-1] = np.where(next(dropped), 0, found[-1])
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


def unpooled(error: np.ndarray, results: np.ndarray, maxima: np.ndarray) -> np.ndarray:
    """Return the errors of results: those of their maxima, 0 where results are less or zero.

    Shape ``(batch, height, width, outputs)``.
    """
    batch, height, pool, width, _, outputs = results.shape
    error = error.reshape(batch, height, 1, width, 1, outputs)
    chosen = (results == maxima[:, :, None, :, None]) & (results > 0)
    found = np.where(chosen, error, 0)
    return found.reshape(batch, height * pool, width * pool, outputs)


def noise_of_pixels(layer, noise: np.ndarray, batch: int) -> np.ndarray:
    """Return the noise of the errors of inputs, shape ``(batch, pixels, inputs)``.

    R channels of an image take rows of noise, one for each pixel, and begin one row after those
    before.
    """
    size = noise.shape[1]
    blocks = -(-layer.inputs // size)
    rows = np.arange(batch * blocks)[:, None] + np.arange(layer.height * layer.width)
    found = noise[rows].reshape(batch, blocks, -1, size).transpose(0, 2, 1, 3)
    return found.reshape(batch, -1, blocks * size)[..., : layer.inputs]


def before_conv(layer, w, error: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the errors of the inputs of a convolution, shape ``(batch, values)``."""
    batch, height, width, _ = error.shape
    kernel, least = layer.kernel, layer.kernel - 1 - layer.padding
    whole = np.zeros((batch, layer.height + kernel - 1, layer.width + kernel - 1, layer.outputs))
    whole[:, least : least + height, least : least + width] = error
    turned = high(w).reshape(kernel, kernel, layer.inputs, layer.outputs)[::-1, ::-1]
    turned = turned.transpose(0, 1, 3, 2).reshape(-1, layer.inputs)
    around = patches(whole, kernel, 0).reshape(-1, kernel**2 * layer.outputs)
    sums = exact(around, turned).reshape(batch, -1, layer.inputs)
    sums += scaled(noise_of_pixels(layer, noise, batch), layer.error_shift)
    return np.clip(up(sums, layer.error_shift), -ONE, 127).reshape(batch, -1)


def before_dense(layer, w, error: np.ndarray, noise: np.ndarray, width: int) -> np.ndarray:
    """Return the errors of the inputs of a matrix product.

    Noise is repeated every R of the inputs, which have ``width`` channels in whole times R.
    """
    size = noise.shape[1]
    groups = layer.inputs // width
    columns = -(-width // size) * size
    wide = np.tile(spread(noise, columns)[:, None, :width], (1, groups, 1))
    sums = exact(error, high(w).T) + scaled(wide.reshape(len(error), -1), layer.error_shift)
    return np.clip(up(sums, layer.error_shift), -ONE, 127)


def train_step(network, weights, batch, parts) -> tuple[list[np.ndarray], np.ndarray]:
    """Return weights after a step, and the logits before it.

    ``parts``: lengths of the parts of the rows of each layer that share noise.
    """
    layers, first = network.layers, sum(map(is_conv, network.layers))
    weights = [w.astype(np.int64) for w in weights]
    found = forward(layers, weights, batch.images, batch.dropped)
    error = softmax_error(network, found[-1], batch.labels, batch.rows[:2])
    after = []
    for number in range(len(layers) - 1, -1, -1):
        layer, w = layers[number], weights[number]
        if is_conv(layer):
            source, results, maxima = convolved(layer, w, found[number])
            error = unpooled(error, results, maxima)
        else:
            source = found[number].reshape(len(error), -1)
        sums = exact(source.T, error.reshape(len(source), -1))
        noise = batch.gradient[number].astype(np.int64)[:, : w.shape[1]]
        sums += np.repeat(noise, parts[number], axis=0)
        after.append(stepped(w, up(sums, layer.update_shift)))
        if number and is_conv(layer):
            error = before_conv(layer, w, error, batch.pixels[number])
        elif number:
            width = layers[number - 1].outputs
            error = before_dense(layer, w, error, batch.rows[2 + number - max(first, 1)], width)
            error = np.where((source > 0) | (number == first), error, 0)
    return after[::-1], found[-1]
