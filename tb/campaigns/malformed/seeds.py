"""Files to change at random: small models of all operators, and programs compiled of them."""

from collections.abc import Sequence
from functools import cache

import networks as w
import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load

#: Cores that models are compiled for, and the batch of programs for them.
CORES = ("nano", "micro", "edge,unified_bytes=4096,weight_tiles=64", "micro,unified_bytes=1024")
_BATCH = (1, 3, 2, 1)


@cache
def core_of(number: int) -> Config:
    """Return one of the cores by a number, which may be any."""
    return preset(CORES[number % len(CORES)])


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-127, 128, shape, np.int8)


def _kernel(*shape: int, channels: int = 0) -> dict:
    """Return weights, a bias for each channel, and scales that keep results in int8."""
    weights = _weights(*shape)
    channels = channels or shape[0]
    return {
        "weights": weights,
        "weight_scale": np.linspace(0.004, 0.009, channels, dtype=np.float32),
        "bias": np.arange(-40, channels - 40, dtype=np.int32) * 7,
        "output_scale": 0.9,
        "output_zero_point": -3,
    }


def _functions() -> list[w.Layer]:
    kinds = ["ABS", "ELU", "EXP", "HARD_SWISH", "LOG", "NEG", "RELU_0_TO_1", "RSQRT", "SQRT"]
    sigmoids = [("LOGISTIC", 1 / 256, -128), ("TANH", 1 / 128, 0)]
    return [
        w.Function(kind="GELU", approximate=True),
        *(layer for kind in kinds for layer in (w.Back(to="input"), w.Function(kind=kind))),
        *(
            layer
            for kind, scale, zero in sigmoids
            for layer in (
                w.Back(to="input"),
                w.Function(kind=kind, output_scale=scale, output_zero_point=zero),
            )
        ),
        w.Back(to="input"),
        w.Function(kind="LEAKY_RELU", alpha=0.1, output_scale=0.04),
        w.Prelu(alpha=np.array([9, -7, 100], np.int8), alpha_scale=0.01),
        w.Prelu(alpha=9, alpha_scale=0.01),
    ]


#: Layers and the shape of their input, by name.
_LAYERS: dict[str, tuple[Sequence[w.Layer], tuple[int, ...]]] = {}


def _note(name: str, shape: tuple[int, ...], *layers: w.Layer) -> None:
    _LAYERS[name] = (layers, shape)


_note(
    "dense",
    (2, 12),
    w.FullyConnected(**_kernel(9, 12), activation="RELU"),
    w.FullyConnected(**{**_kernel(5, 9), "weight_scale": 0.006, "bias": None}),
    w.Softmax(beta=0.7),
)
_note(
    "network",
    (1, 9, 8, 3),
    w.Convolution(**_kernel(6, 3, 3, 3), activation="RELU6"),
    w.Pool(),
    w.Depthwise(**_kernel(1, 3, 2, 12, channels=12), stride=(1, 2)),
    w.Reshape(shape=(1, 96)),
    w.FullyConnected(**_kernel(7, 96)),
)
_note(
    "residual",
    (2, 6, 6, 4),
    w.Convolution(**_kernel(4, 3, 3, 4), dilation=(2, 1)),
    w.Add(second="input", output_scale=0.7, activation="RELU"),
    w.Pool(kind="AVERAGE_POOL_2D", window=(3, 2), stride=(2, 1), padding="SAME"),
    w.Mean(),
)
_note(
    "arithmetic",
    (1, 5, 3),
    w.Binary(kind="MUL", second="input", output_scale=0.2),
    w.Binary(kind="SUB", second="input", output_scale=0.2, swapped=True),
    w.Binary(kind="ADD", second=_weights(5, 3), second_scale=0.02, output_scale=0.2),
    w.Binary(kind="MUL", second=_weights(1), second_scale=0.02, output_scale=0.2),
    w.Binary(kind="MAXIMUM", second=_weights(1, 3), second_scale=0.2, output_scale=0.2),
    w.Binary(kind="MINIMUM", second=_weights(1), second_scale=0.2, output_scale=0.2),
    w.ArgMax(axis=1, output_type="int64"),
)
_note("functions", (1, 2, 3), *_functions())
_note(
    "moves",
    (1, 4, 6),
    w.Transpose(permutation=(0, 2, 1)),
    w.Split(axis=1, parts=2),
    w.Concatenate(others=["output_1_1", "output_1"], axis=2),
    w.StridedSlice(begin=(0, 2, 7), end=(1, 0, 1), stride=(1, -1, -2)),
    w.Pad(before=(0, 1, 0), after=(0, 0, 2), value=5),
    w.SplitSizes(axis=2, first=2),
    w.Pack(others=["output_5"], axis=1),
    w.Unpack(axis=2),
    w.ExpandDims(axis=1),
    w.StridedSlice(begin=(0, 0, 0, 0), end=(1, 1, 1, 2), stride=(1, 1, 1, 1), plain=True),
)
_note(
    "images",
    (1, 4, 4, 4),
    w.DepthToSpace(block=2),
    w.SpaceToDepth(block=4),
    w.Resize(kind="RESIZE_BILINEAR", size=(3, 5), half_pixel_centers=True),
    w.Resize(kind="RESIZE_NEAREST_NEIGHBOR", size=(4, 2), align_corners=True),
    w.SpaceToBatch(blocks=(2, 2), margins=((1, 1), (0, 2))),
    w.BatchToSpace(blocks=(2, 2), margins=((1, 0), (0, 1))),
    w.TransposedConvolution(**_kernel(3, 3, 2, 16), stride=(2, 1), padding="VALID"),
)
_note(
    "pooled",
    (2, 5, 5, 2),
    w.Pad(before=(0, 1, 1, 0), after=(0, 1, 0, 0), wide=True),
    w.Pool(window=(3, 3), stride=(1, 2), padding="SAME"),
    w.Activation(kind="RELU_N1_TO_1", output_scale=0.05),
    w.Activation(kind="RELU6"),
    w.Mean(kind="REDUCE_MAX", axes=(2,), keep_dims=True),
    w.Mean(axes=(-1,), keep_dims=True, output_scale=0.03),
    w.Quantize(output_scale=0.1, output_zero_point=100, output_type="uint8"),
)
_note(
    "sums",
    (1, 3, 4),
    w.Operator(
        kind="BATCH_MATMUL",
        shape=(1, 3, 5),
        operands=[w.Constant(_weights(4, 5), 0.01)],
        output_scale=0.2,
        options={"adjX": False, "adjY": False},
    ),
    w.Mean(kind="SUM", axes=(1,), output_scale=0.4),
)
_note(
    "float",
    (1, 20),
    w.Quantize(output_scale=0.1, output_zero_point=3),
    w.FullyConnected(**_kernel(4, 20), activation="RELU_N1_TO_1"),
    w.Dequantize(),
)

_note(
    "differences",
    (1, 3, 4),
    w.Operator(
        kind="SQUARED_DIFFERENCE",
        shape=(1, 3, 4),
        operands=[w.Constant(_weights(3, 4), 0.1)],
        output_scale=3.0,
    ),
    w.Mean(axes=(2,), keep_dims=True, output_scale=2.0),
)


@cache
def graphs() -> tuple[w.Graph, ...]:
    """Return the graphs of the models, always the same."""
    return tuple(
        w.sequential(
            layers,
            input_shape=shape,
            input_scale=0.2,
            input_zero_point=0,
            input_type="float32" if name == "float" else "int8",
        )
        for name, (layers, shape) in _LAYERS.items()
    )


@cache
def models() -> tuple[bytes, ...]:
    """Return the model files."""
    return tuple(w.serialize(graph) for graph in graphs())


@cache
def programs() -> tuple[bytes, ...]:
    """Return the program files, of each model for two of the cores."""
    made = []
    for index, model in enumerate(models()):
        for number in (index, index + 1):
            program = compile_graph(load(model), core_of(number), _BATCH[number % len(_BATCH)])
            made.append(program.to_bytes())
    return tuple(made)
