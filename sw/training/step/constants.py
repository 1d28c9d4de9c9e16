"""Constants of a training step: parameters, tables, tiles."""

import numpy as np

from celosia.hw.arch.config import TABLE_BYTES
from celosia.sw.layers.channel import CHANNEL, LEFT, MULTIPLIER
from celosia.sw.layers.weight_bytes import LOW_BITS
from celosia.sw.operators.step_errors import (
    ERROR_SHIFT,
    ONE,
    RECIPROCAL_SHIFT,
    exponentials,
    projection,
    reciprocals,
)
from celosia.sw.training.scheme import noise_factor
from celosia.sw.training.step.layout import TABLES, Layout


def parameters(layout: Layout) -> bytes:
    """Return the sets of parameters, one channel for each lane."""
    shifts = {"same": 0, "error": ERROR_SHIFT, "high": LOW_BITS, "reciprocal": RECIPROCAL_SHIFT}
    for number, layer in enumerate(layout.network.layers):
        shifts |= {
            f"sum{number}": layout.network.sum_shift(number),
            f"back{number}": layer.error_shift,
        }
    twice = {f"sum{conv.number}" for conv in layout.convolutions}
    result = np.zeros((len(layout.sets), layout.config.lanes), CHANNEL)
    result["multiplier"] = MULTIPLIER
    for row, name in zip(result, layout.sets, strict=True):
        row["left"], row["right"] = LEFT, shifts.get(name, 0)
        if name in twice:
            # As LiteRT: half of the sum is rounded, then the rest of the shift.
            row["left"], row["right"] = 0, shifts[name] - 1
        if name == "reciprocal":
            row["bias"] = -ONE
        elif name == "threshold":
            row["left"] = LEFT + 7
        elif name == "low":
            # The shift to the left drops the bits above; the sign is that of the highest one left.
            row["left"], row["right"] = 32 - LOW_BITS, 31 - LOW_BITS
    return result.tobytes()


def tables(layout: Layout) -> bytes:
    """Return the tables, in the order of ``layout.TABLES``."""
    every = np.arange(-128, 128)
    raised = np.zeros(TABLE_BYTES, np.int8)
    raised[: every.size // 2 + 1] = exponentials(layout.network.exponent)
    contents = {
        "exponential": raised,
        "reciprocal": -reciprocals().astype(np.int8),
        "mask": np.where(every == -128, 0, every).astype(np.int8),
    }
    # Entry i is the result for the int8 whose bits are i.
    return b"".join(np.roll(contents[name], -128).tobytes() for name in TABLES)


def tiles(layout: Layout) -> bytes:
    """Return the constant tiles, as ``LOAD_WEIGHTS`` reads them; zeros where others are moved."""
    size, network = layout.size, layout.network
    result = np.zeros((layout.constant_tiles, size, size), np.int8)
    one = np.eye(size, dtype=np.int8)
    last = layout.tiles_of(layout.outputs[-1])
    result[layout.identity] = one
    result[layout.identity + 1] = one << LOW_BITS
    result[layout.ones : layout.ones + last, :, 0] = 1
    identity = np.zeros((layout.outputs[-1], layout.outputs[-1]), np.int8)
    identity[: layout.classes, : layout.classes] = projection(layout.classes)
    noise = noise_factor(ERROR_SHIFT) * one
    for number in range(layout.outputs[-1] // size):
        centre, product = layout.centre[number], layout.product[number]
        result[centre + number] = one
        result[centre + last, 0] = -1
        right = product + layout.tiles_of(layout.batch)
        result[right + number] = ONE * one
        result[right + last] = noise
        project = layout.project[number]
        columns = identity[:, number * size : (number + 1) * size]
        result[project : project + last] = columns.reshape(last, size, size)
        result[project + last] = noise
    shifts = [layer.error_shift for layer in network.layers]
    for number, groups in layout.back.items():
        for group in groups:
            noisy = group + layout.tiles_of(layout.outputs[number])
            result[noisy] = noise_factor(shifts[number]) * one
    for number, tile in layout.noise_tiles.items():
        result[tile] = noise_factor(shifts[number]) * one
    result[layout.minus], result[layout.twice] = -one, 2 * one
    # Rows end with a beat.
    spare = layout.config.tile_row_bytes - layout.config.columns
    return np.pad(result, ((0, 0), (0, 0), (0, spare))).tobytes()


def contents(layout: Layout) -> dict[int, bytes]:
    """Return the constants by their address."""
    return {
        layout.parameters: parameters(layout),
        layout.tables: tables(layout),
        layout.tile_content: tiles(layout),
    }
