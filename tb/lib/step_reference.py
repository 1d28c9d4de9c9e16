"""Operations of a training step in NumPy, independent of the compiler and its host kernels.

In integers they are exact. As real numbers they neither round nor saturate: then the steps of the
weights are gradients of a float network.
"""

from typing import Any

import numpy as np

ONE = 127


def rounded(sums: np.ndarray, fields: dict[str, Any]) -> np.ndarray:
    """Divide by 2 ** shift, clamp to int8."""
    shift, rounding = fields["shift"], fields["rounding"]
    if fields["kept_bits"]:
        count = 1 << fields["kept_bits"]
        sums = (sums + count // 2) % count - count // 2
    if rounding == "HALVED":
        sums, shift = np.floor_divide(sums + 1, 2), shift - 1
    exact = sums / 2.0**shift
    if rounding == "UP":
        values = np.floor(exact + 0.5)
    else:
        values = np.copysign(np.floor(np.abs(exact) + 0.5), exact)
    return np.clip(values, fields["low"], fields["high"]).astype(np.int64)


def finish(sums: np.ndarray, fields: dict[str, Any], real: bool) -> np.ndarray:
    """Shift sums; real numbers are only clamped by activations."""
    if not real:
        return rounded(sums, fields)
    values = sums / 2.0 ** fields["shift"]
    if fields["low"] == 0:
        values = np.clip(values, 0, fields["high"] if fields["high"] < 127 else None)
    return values


def added(sums: np.ndarray, addends: list[np.ndarray], fields: dict[str, Any]) -> np.ndarray:
    """Add addends, row by row; overlapping ones begin a row later for each image."""
    images, channels = sums.shape[0], sums.shape[-1]
    flat = sums.reshape(images, -1, channels)
    for addend, factor in zip(addends, fields["factors"], strict=True):
        rows = addend.reshape(-1, addend.shape[-1])
        wide = np.hstack([rows] * (channels // rows.shape[1] + 1))[:, :channels]
        for image in range(images):
            pixels = flat.shape[1]
            first = image * pixels if len(wide) == images * pixels else image
            part = wide[first : first + pixels] if len(wide) > 1 else wide
            flat[image] += factor * part
    return flat.reshape(sums.shape) + (0 if sums.dtype == float else fields["bias"])


def stepped(sums: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Divide the sums of each channel by the shift of its parameters; noise is their bias."""
    raw = [bytes(int(x) & 255 for x in record) for record in records[0]]
    shifts = np.array([record[9] for record in raw])
    if sums.dtype == float:
        return sums / 2.0**shifts
    noise = np.array([int.from_bytes(record[:4], "little", signed=True) for record in raw])
    return np.floor((sums + noise) / 2.0**shifts + 0.5).astype(np.int64)


def taps(shape, fields, counts):
    """Yield number of a tap, and the pixels of results and of images that it connects."""
    (kh, kw), (sh, sw), (top, left) = fields["kernel"], fields["stride"], fields["before"]
    for ky in range(kh):
        for kx in range(kw):
            ys = [(y, y * sh + ky - top) for y in range(counts[0])]
            xs = [(x, x * sw + kx - left) for x in range(counts[1])]
            ys = np.array([pair for pair in ys if 0 <= pair[1] < shape[0]]).reshape(-1, 2).T
            xs = np.array([pair for pair in xs if 0 <= pair[1] < shape[1]]).reshape(-1, 2).T
            inside, outside = np.ix_(ys[0], xs[0]), np.ix_(ys[1], xs[1])
            yield ky * kw + kx, (slice(None), *inside), (slice(None), *outside)


def matrices(weights: np.ndarray, inputs: int, fields: dict[str, Any]) -> np.ndarray:
    """Return the weights of each tap: inputs times outputs, zeros off a depthwise layer's own."""
    count, outputs = fields["kernel"][0] * fields["kernel"][1], weights.shape[-1]
    if not fields["depthwise"]:
        return weights.reshape(count, inputs, outputs)
    whole = np.zeros((count, inputs, outputs), weights.dtype)
    for channel in range(outputs):
        whole[:, channel // (outputs // inputs), channel] = weights[0, :, channel]
    return whole


def product(x, y, fields):
    y = y[..., fields["column"] : fields["column"] + fields["columns"]]
    x = x.swapaxes(1, 2) if fields["adj_x"] else x
    return x @ (y.swapaxes(1, 2) if fields["adj_y"] else y)


def convolution(x, weights, fields, shape):
    sums = np.zeros(shape, x.dtype)
    each = matrices(weights, x.shape[3], fields)
    for tap, results, pixels in taps(x.shape[1:3], fields, shape[1:3]):
        sums[results] += x[pixels] @ each[tap]
    return sums


def turned(errors, weights, fields, shape):
    sums = np.zeros(shape, errors.dtype)
    each = matrices(weights, shape[3], fields)
    for tap, results, pixels in taps(shape[1:3], fields, errors.shape[1:3]):
        sums[pixels] += errors[results] @ each[tap].T
    return sums


def correlation(x, errors, fields, shape):
    count, inputs, outputs = fields["kernel"][0] * fields["kernel"][1], x.shape[3], shape[2]
    sums = np.zeros((count, inputs, outputs), x.dtype)
    for tap, results, pixels in taps(x.shape[1:3], fields, errors.shape[1:3]):
        sums[tap] = np.einsum("byxi,byxo->io", x[pixels], errors[results])
    if fields["depthwise"]:
        own = np.arange(outputs) // (outputs // inputs)
        return sums[:, own, np.arange(outputs)].reshape(shape)
    return sums.reshape(shape)


def grown(errors: np.ndarray, fields: dict[str, Any]) -> np.ndarray:
    (rows, columns), (height, width) = fields["window"], fields["extents"]
    result = np.zeros((errors.shape[0], height, width, errors.shape[3]), errors.dtype)
    if "stride" in fields:
        # One part of the windows: every second, third, ... of those that overlap.
        for y, x in np.ndindex(*errors.shape[1:3]):
            ways = [*zip((y, x), fields["part"], fields["window"], fields["stride"], strict=True)]
            if all(n % -(-size // stride) == part for n, part, size, stride in ways):
                ends = zip(ways, fields["before"], strict=True)
                first = [n * stride - before for (n, _, _, stride), before in ends]
                top, left = (max(0, n) for n in first)
                result[:, top : first[0] + rows, left : first[1] + columns] = errors[:, y, x][
                    :, None, None
                ]
        return result
    high, wide = errors.shape[1] * rows, errors.shape[2] * columns
    ys, xs = np.arange(high) // rows, np.arange(wide) // columns
    result[:, :high, :wide] = errors[:, ys][:, :, xs]
    return result


def softmax(logits, labels, noises, steps):
    """Return right class minus softmax, without its mean, in steps of 1 / ONE."""
    classes = logits.shape[-1]
    below = np.maximum(logits - logits.max(-1, keepdims=True), -128)
    powers = np.round(ONE * np.exp(below / steps)).astype(np.int64)
    index = np.minimum((powers.sum(-1) - ONE + 2) >> 2, 255)
    error = (
        ONE * labels - np.round(ONE * ONE / (ONE + 4 * index)).astype(np.int64)[..., None] * powers
    )
    first, second = (np.tile(n, classes)[..., :classes] for n in noises)
    error = np.clip((error + first + 64) >> 7, -ONE, ONE)
    part = min(round(128 / classes), 127 // (classes - 1))
    centred = part * (classes * error - error.sum(-1, keepdims=True))
    return np.clip((centred + second + 64) >> 7, -ONE, ONE)


def overlapping_maxima(x, fields, shape):
    """Return maxima of windows that may overlap and end past the edges."""
    result = np.empty(shape, x.dtype)
    ways = [*zip(shape[1:3], fields["window"], fields["stride"], x.shape[1:3], strict=True)]
    missing = [(n - 1) * stride + size - extent for n, size, stride, extent in ways]
    before = [max(n, 0) // 2 if fields["padding"] == "SAME" else 0 for n in missing]
    for y, x_ in np.ndindex(*shape[1:3]):
        first = [n * way[2] - less for n, way, less in zip((y, x_), ways, before, strict=True)]
        rows, columns = (slice(max(n, 0), n + way[1]) for n, way in zip(first, ways, strict=True))
        result[:, y, x_] = x[:, rows, columns].max((1, 2))
    return result


def pooled(x, fields, shape, kind, real):
    (rows, columns), (_, height, width, _) = fields["window"], shape
    if fields["stride"] != fields["window"]:
        return overlapping_maxima(x, fields, shape)
    parts = x[:, : height * rows, : width * columns]
    parts = parts.reshape(len(x), height, rows, width, columns, -1)
    if kind == "MAX_POOL_2D":
        return parts.max((2, 4))
    exact = parts.sum((2, 4)) / (rows * columns)
    return exact if real else np.copysign(np.floor(np.abs(exact) + 0.5), exact).astype(np.int64)


def result(kind: str, arrays: list[np.ndarray], fields: dict[str, Any], shape, real: bool):
    """Return the result of an operation."""
    sums: dict[str, Any] = {
        "ShiftedProduct": lambda x, *blocks: product(x, np.dstack(blocks), fields),
        "ShiftedSum": lambda: np.zeros(shape, float if real else np.int64),
        "ShiftedConvolution": lambda x, w: convolution(x, w, fields, shape),
        "TurnedConvolution": lambda e, w: turned(e, w, fields, shape),
        "ShiftedCorrelation": lambda x, e: correlation(x, e, fields, shape),
    }
    if kind in sums:
        *arrays, records = arrays if fields["stepped"] else (*arrays, None)
        first = len(arrays) - len(fields["factors"])
        total = sums[kind](*arrays[:first])
        total = total if records is None else stepped(total, records)
        return finish(added(total, arrays[first:], fields), fields, real)
    match kind:
        case "MaskedErrors":
            top = fields["high"] if fields["high"] < 128 else np.inf
            return np.where((arrays[1] > fields["low"]) & (arrays[1] < top), arrays[0], 0)
        case "MaximumErrors":
            errors, results, maxima = arrays
            chosen = results == grown(maxima, fields)
            if "low" in fields:
                top = fields["high"] if fields["high"] < 128 else np.inf
                chosen &= (results > fields["low"]) & (results < top)
            return np.where(chosen, grown(errors, fields), 0)
        case "RepeatedErrors":
            return grown(arrays[0], fields)
        case "SoftmaxErrors":
            return softmax(arrays[0], arrays[1], arrays[2:], fields["steps"])
        case "RESHAPE":
            return arrays[0].reshape(shape)
        case "CONCATENATION":
            return np.concatenate(arrays, fields["axis"])
        case "SLICE":
            ways = zip(fields["begin"], fields["count"], strict=True)
            return arrays[0][tuple(slice(first, first + count) for first, count in ways)]
        case "PAD":
            return np.pad(arrays[0], [*zip(fields["before"], fields["after"], strict=True)])
        case _:
            return pooled(arrays[0], fields, shape, kind, real)


def evaluate(graph, values: dict[int, np.ndarray], *, real: bool = False) -> dict[int, np.ndarray]:
    """Return all tensors of the graph of a step, by number; ``values``: inputs and states."""
    dtype = float if real else np.int64
    found = {number: array.astype(dtype) for number, array in values.items()}
    for number, tensor in enumerate(graph.tensors):
        if tensor.data is not None:
            found[number] = tensor.data.astype(dtype)
    for operation in graph.operations:
        (number,) = operation.outputs
        arrays = [found[n] for n in operation.inputs]
        shape = graph.tensors[number].shape
        found[number] = result(operation.kind, arrays, operation.attributes, shape, real)
        assert found[number].shape == shape, (operation.kind, found[number].shape, shape)
    return found
