"""Networks with frozen figures: shipped ones, MLPerf Tiny, two with random weights."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import networks as w
import numpy as np

from celosia.sw.shipped import model_path


class Stack:
    """Layers of a network with random weights, and the channels of the last result.

    Scales keep the numbers inside int8 at any depth. The random numbers are those of
    ``RandomState``, whose streams never change.
    """

    def __init__(self, channels: int) -> None:
        self.layers: list[w.Layer] = []
        self.channels = channels
        self._random = np.random.RandomState(22)

    @property
    def last(self) -> str:
        """Name of the last result."""
        return f"output_{sum(not isinstance(layer, w.Back) for layer in self.layers) - 1}"

    def _kernel(self, shape: tuple[int, ...], outputs: int, taps: int) -> dict[str, Any]:
        return {
            "weights": self._random.randint(-127, 128, shape).astype(np.int8),
            "bias": self._random.randint(-4000, 4000, outputs).astype(np.int32),
            "weight_scale": 0.01 / np.sqrt(taps) * (1 + self._random.randint(0, 8, outputs) / 8),
        }

    def convolution(self, channels: int, size: int = 1, **options: Any) -> None:
        """Append a convolution with square windows."""
        kernel = self._kernel(
            (channels, size, size, self.channels), channels, size * size * self.channels
        )
        self.layers.append(w.Convolution(**{**kernel, "output_scale": 0.05, **options}))
        self.channels = channels

    def depthwise(self, stride: int, **options: Any) -> None:
        """Append a depthwise convolution of 3 by 3."""
        kernel = self._kernel((1, 3, 3, self.channels), self.channels, 9)
        options = {"output_scale": 0.05, "stride": (stride, stride), **options}
        self.layers.append(w.Depthwise(**{**kernel, **options}))

    def fully_connected(self, outputs: int) -> None:
        """Append a fully connected layer."""
        kernel = self._kernel((outputs, self.channels), outputs, self.channels)
        self.layers.append(w.FullyConnected(**kernel, output_scale=0.05))

    def bottleneck(self, channels: int, stride: int, expansion: int) -> None:
        """Append an inverted residual of MobileNetV2."""
        before, same = self.last, stride == 1 and channels == self.channels
        relu = {"activation": "RELU6", "output_scale": 6 / 255, "output_zero_point": -128}
        if expansion > 1:
            self.convolution(expansion * self.channels, **relu)
        self.depthwise(stride, **relu)
        self.convolution(channels)
        if same:
            self.layers.append(w.Add(second=before, output_scale=0.07, output_zero_point=3))

    def fire(self, squeeze: int, expand: int) -> None:
        """Append a fire module of SqueezeNet."""
        relu = {"activation": "RELU", "output_zero_point": -128}
        self.convolution(squeeze, **relu)
        start = self.last
        self.convolution(expand, **relu)
        first = self.last
        self.layers.append(w.Back(to=start))
        self.channels = squeeze
        self.convolution(expand, 3, **relu)
        self.layers.append(w.Concatenate(others=(first,), axis=3))
        self.channels = 2 * expand


def mobilenet_v2() -> bytes:
    """Return MobileNetV2 of width 0.35 for 128 × 128 pixels."""
    stack = Stack(3)
    relu = {"activation": "RELU6", "output_scale": 6 / 255, "output_zero_point": -128}
    stack.convolution(16, 3, stride=(2, 2), **relu)
    for expansion, channels, count, stride in (
        *((1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2)),
        *((6, 32, 3, 1), (6, 56, 3, 2), (6, 112, 1, 1)),
    ):
        for number in range(count):
            stack.bottleneck(channels, 1 if number else stride, expansion)
    stack.convolution(1280, **relu)
    stack.layers.append(w.Mean())
    stack.fully_connected(1000)
    return w.write_sequential(stack.layers, input_shape=(1, 128, 128, 3), input_scale=1 / 128)


def squeezenet() -> bytes:
    """Return SqueezeNet 1.1 for 224 × 224 pixels."""
    stack = Stack(3)
    relu = {"activation": "RELU", "output_zero_point": -128}
    stack.convolution(64, 3, stride=(2, 2), padding="VALID", **relu)
    for squeeze, expand in ((16, 64), (32, 128)):
        stack.layers.append(w.Pool(window=(3, 3)))
        stack.fire(squeeze, expand)
        stack.fire(squeeze, expand)
    stack.layers.append(w.Pool(window=(3, 3)))
    for squeeze, expand in ((48, 192), (48, 192), (64, 256), (64, 256)):
        stack.fire(squeeze, expand)
    stack.convolution(1000, **relu)
    stack.layers.append(w.Mean())
    return w.write_sequential(stack.layers, input_shape=(1, 224, 224, 3), input_scale=1 / 128)


class Network(NamedTuple):
    """A network whose figures are frozen.

    ``content``: returns the ``.tflite`` file; ``batch``: samples of one run;
    ``samples``: samples whose outputs are compared, whole runs; ``slow``: compiles for more than a
    few seconds; ``rtl``: small enough for the RTL; ``preset``: of the core.
    """

    content: Callable[[], bytes]
    batch: int = 1
    samples: int = 4
    slow: bool = False
    rtl: bool = True
    preset: str = "edge"


def _shipped(name: str) -> bytes:
    return model_path(name).read_bytes()


def _mlperf(name: str) -> bytes:
    return (Path(os.environ["CELOSIA_MODELS"]) / f"{name}.tflite").read_bytes()


SHIPPED = ("fashion_b", "mnist_a", "mnist_c", "mnist_d", "mnist_mlp")
TRANSFORMERS = ("fashion_vit", "kjv_text", "mnist_vit")
MLPERF = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")

#: By the name in ``golden.json``; those of MLPerf Tiny need ``CELOSIA_MODELS``.
NETWORKS: dict[str, Network] = {
    **{
        f"{name} {batch}": Network(partial(_shipped, name), batch, max(batch, 4))
        for name in SHIPPED
        for batch in (1, 16)
    },
    **{name: Network(partial(_shipped, name), preset="transformer") for name in TRANSFORMERS},
    **{name: Network(partial(_mlperf, name), slow=name == "vww_96_int8") for name in MLPERF},
    "mobilenet_v2": Network(mobilenet_v2, samples=1, slow=True, rtl=False),
    "squeezenet": Network(squeezenet, samples=1, slow=True, rtl=False),
}
