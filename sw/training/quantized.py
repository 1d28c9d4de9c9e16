"""Networks in real numbers as int8 files, calibrated by samples: nothing trains."""

import numpy as np

from celosia.sw.ir.graph import Graph
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.calibration import IMAGES, least
from celosia.sw.training.deployed import tflite_of
from celosia.sw.training.graph import calibrated, step_graph, trained


def quantized(network: Graph, images: np.ndarray, exponent: int) -> bytes:
    """Return the ``.tflite`` file of a network with its own weights.

    Its scales are those of a step in which nothing trains. The logits keep their scale.

    - ``network``: in real numbers. ``images``: int8; some of them calibrate the shifts.
    - ``exponent``: of the images.

    Raises InputError if no layer has weights, CompileError if layers do not train.
    """
    body = trained(network)
    if not any(o.kind in OPERATORS and OPERATORS[o.kind].weighted for o in body.operations):
        raise InputError("training: wanted layers with weights, got none")
    options = {"loss": "squares", "width": 16, "most": 1 << 30, "last": 0, "exponent": exponent}
    images = images[:IMAGES]
    elements = body.tensors[body.outputs[0]].elements
    labels = np.zeros((1, len(images), elements), np.int8)
    _, shifts = calibrated(
        body,
        lambda role, results, exponent: least(role, False, results, exponent, 0.0),
        images,
        lambda _: labels,
        **options,
    )
    step = step_graph(body, 1, lambda role, *_: shifts[role], **options)
    return tflite_of(network, step, ())
