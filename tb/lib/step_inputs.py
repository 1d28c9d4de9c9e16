"""Inputs of training steps: images, labels and noise, and shifts that nobody chose."""

import zlib

import numpy as np

from celosia.sw.ir.graph import Graph
from celosia.sw.training.graph import StepGraph


def shift_of(role: str, *_: object) -> int:
    """Return some shift of 0 to 9 for each role, always the same."""
    return zlib.crc32(role.encode()) % 10 if "step" in role else 5 + zlib.crc32(role.encode()) % 3


def records(shift: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return parameters of channels with noise as bias."""
    half, made = (1 << shift) >> 1, np.zeros(shape, np.uint8)
    noise = rng.integers(-half, max(half, 1), shape[1]).astype("<i4")
    made[0, :, :4] = noise.view(np.uint8).reshape(-1, 4)
    made[0, :, 4:8] = np.array([1 << 30], "<u4").view(np.uint8)
    made[0, :, 8:10] = 1, shift
    return made.view(np.int8)


def labels_of(graph: Graph) -> int:
    return next(n for n in graph.inputs if graph.tensors[n].name == "labels")


def contents(found: StepGraph, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Return random inputs, and the first states."""
    values = {}
    for number in found.graph.inputs:
        tensor = found.graph.tensors[number]
        if role := found.records.get(tensor.name):
            values[number] = records(found.shifts[role], tensor.shape, rng)
            continue
        if tensor.name in found.dropouts:
            values[number] = rng.integers(-1, 1, tensor.shape, np.int8) << 7
            continue
        bits = found.noises.get(tensor.name)
        half = 128 if bits is None else (1 << bits) >> 1
        low = 0 if bits is None else -half
        values[number] = rng.integers(low, max(half, 1), tensor.shape, np.int8)
    labels = labels_of(found.graph)
    _, images, classes = found.graph.tensors[labels].shape
    right = np.arange(classes) == rng.integers(0, classes, (1, images, 1))
    values[labels] = np.where(right, 127, 0)
    return values | {state.tensor: state.initial for state in found.graph.states}
