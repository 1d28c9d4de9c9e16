"""Batches that the host writes for a step: images, labels and noise, drawn by seeds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from celosia.sw.layers.channel import CHANNEL, LEFT, MULTIPLIER
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.operators.step_errors import ERROR_SHIFT
from celosia.sw.training.pipeline import ahead
from celosia.sw.training.scheme import noise_bits
from celosia.sw.training.step.geometry import Geometry
from celosia.sw.training.step.layout import Layout

#: Uses of the generators of random numbers, the last word of their seeds.
SPLIT, WEIGHTS, ORDER, NOISE, CHANGES = range(5)


@dataclass(frozen=True)
class Batch:
    """Inputs of a step.

    ``images``: int8, 0 to MOST, shape ``(batch, inputs)``; ``labels``: shape ``(batch,)``;
    ``gradient``: noise of each layer's gradients, int32, one number for each column of each part of
    the rows, shapes ``(parts, outputs)``; ``rows``: noise of the products with the softmax, of its
    error, and of the errors of the inputs of each matrix product, int8, shapes ``(batch, R)``;
    ``pixels``: noise of the errors of the inputs of each convolution, int8, shapes
    ``(noise_rows, R)``; ``dropped``: True for the results that are left out, shape ``(batch,
    outputs)``, for each layer with dropout.
    """

    images: np.ndarray
    labels: np.ndarray
    gradient: list[np.ndarray]
    rows: list[np.ndarray]
    pixels: list[np.ndarray]
    dropped: list[np.ndarray]


def pixels(images: np.ndarray) -> np.ndarray:
    """Return images of bytes as int8 of 0 to MOST, shape ``(N, pixels)``."""
    steps = np.round(np.arange(256, dtype=np.float32) / np.float32(255) * MOST)
    return steps.astype(np.int8)[images.reshape(len(images), -1)]


def generator(seed: int, *words: int) -> np.random.Generator:
    """Return the generator of random numbers of a seed and a use."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))


def draw(
    layout: Layout, images: np.ndarray, labels: np.ndarray, random: np.random.Generator
) -> Batch:
    """Return the inputs of a step, with noise from a generator."""
    layers, size = layout.network.layers, layout.size

    def noise(shift: int, shape: tuple[int, int]) -> np.ndarray:
        half = 1 << (noise_bits(shift) - 1)
        return random.integers(-half, half, shape, np.int8)

    shifts = [ERROR_SHIFT, ERROR_SHIFT]
    shifts += [layers[n].error_shift or ERROR_SHIFT for n in layout.noisy]
    gradient = []
    for number, (layer, count) in enumerate(zip(layers, layout.outputs, strict=True)):
        half, shape = 1 << (layer.update_shift - 1), (len(layout.parts(number)), count)
        gradient.append(random.integers(-half, half, shape, np.int32))
    rows = [noise(shift, (layout.batch, size)) for shift in shifts]
    around = [
        noise(conv.layer.error_shift or ERROR_SHIFT, (conv.noise_rows, size))
        for conv in layout.convolutions
    ]
    shapes = [(layout.batch, layers[n].outputs) for n in layout.dropped]
    dropped = [random.integers(0, 2, shape, np.int8).astype(bool) for shape in shapes]
    return Batch(images, labels, gradient, rows, around, dropped)


def packed(layout: Layout, batch: Batch) -> bytes:
    """Return the bytes from ``layout.host`` on."""
    packet = np.zeros(layout.host_end - layout.host, np.int8)

    def at(address: int, rows: int, length: int) -> np.ndarray:
        first = address - layout.host
        return packet[first : first + rows * length].reshape(rows, length)

    images = at(layout.images, layout.batch, layout.image_bytes)
    _on_grid(layout.convolutions[0].geometry, batch.images, images)
    chunks = len(layout.chunks)
    at(layout.noise, chunks, layout.chunk_parameters)[...] = _steps(layout, batch)
    for conv, noise in zip(layout.convolutions, batch.pixels, strict=True):
        at(conv.noise, *noise.shape)[...] = noise
    for address, length, noise in zip(layout.rows, layout.row_lengths, batch.rows, strict=True):
        at(address, layout.batch, length)[:, length - layout.size :] = noise
    for (number, address), left_out in zip(layout.dropped.items(), batch.dropped, strict=True):
        values = at(address, layout.batch, layout.outputs[number])
        values[:, : left_out.shape[1]] = np.where(left_out, -128, 0)
    right = at(layout.rows[0], layout.batch, layout.row_lengths[0])
    right[np.arange(layout.batch), layout.batch + batch.labels.astype(np.int64)] = MOST
    return packet.tobytes()


def _on_grid(geometry: Geometry, images: np.ndarray, target: np.ndarray) -> None:
    """Write images, shape ``(batch, inputs)``, to bytes of zeros of their grids."""
    g, layer = geometry, geometry.layer
    rows = images.reshape(-1, layer.height, layer.width, layer.inputs)
    first = g.origin * g.pitch
    for y in range(layer.height):
        start = first + y * g.grid * g.pitch
        line = target[:, start : start + layer.width * g.pitch]
        line.reshape(-1, layer.width, g.pitch)[..., : layer.inputs] = rows[:, y]


def _steps(layout: Layout, batch: Batch) -> np.ndarray:
    """Return the parameters that shift gradients, with noise as bias: bytes of each chunk."""
    channels = np.zeros((len(layout.chunks), layout.size), CHANNEL)
    channels["multiplier"], channels["left"] = MULTIPLIER, LEFT
    for row, chunk in zip(channels, layout.chunks, strict=True):
        number, first = chunk.block.layer, chunk.block.number * layout.size
        row["bias"] = batch.gradient[number][chunk.part, first : first + layout.size]
        row["right"] = layout.network.layers[number].update_shift
    return channels.view(np.int8).reshape(len(channels), -1)


def order(seed: int, epoch: int, count: int) -> np.ndarray:
    """Return the order of the images in an epoch."""
    return generator(seed, epoch, ORDER).permutation(count)


def epoch_batches(
    layout: Layout, images: np.ndarray, labels: np.ndarray, seed: int, epoch: int, first: int = 0
) -> Iterator[tuple[np.ndarray, bytes]]:
    """Yield labels and packed bytes of each step of an epoch from step ``first`` on.

    A thread draws them ahead. Images that do not fill a batch are left out.
    """
    shuffled = order(seed, epoch, len(labels))

    def one(step: int) -> tuple[np.ndarray, bytes]:
        chosen = shuffled[step * layout.batch : (step + 1) * layout.batch]
        random = generator(seed, epoch, step, NOISE)
        batch = draw(layout, images[chosen], labels[chosen], random)
        return batch.labels, packed(layout, batch)

    yield from ahead(range(first, len(labels) // layout.batch), one)
