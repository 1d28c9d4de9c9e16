"""Operators with ONNX Runtime's arithmetic, under the names they have there.

They match operators of TensorFlow Lite but round differently: see ``compiler.onnxruntime``.
Models hold them after the front end: images with channels last, int8 for uint8.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from celosia.hw.arch.isa import Window
from celosia.sw.ir.graph import Operation
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.lowering import Lowering, add_sum, lookup
from celosia.sw.layers.onnxruntime import (
    added,
    averaged,
    factors,
    multiplied,
    quantized,
    requantized,
    softmax,
)
from celosia.sw.layers.products import dynamic_product, product, weights_option
from celosia.sw.layers.quantize import ends, ends_of_two
from celosia.sw.layers.record import EXTENT, Attributes, Operator, Shape, require
from celosia.sw.layers.single_scaling import (
    addition_scalings,
    average_scaling,
    computed_scaling,
    mean_scaling,
    product_scaling,
)
from celosia.sw.layers.tables import lines
from celosia.sw.operators.batches import batch_shapes, batch_sums
from celosia.sw.operators.elementwise import addends, two
from celosia.sw.operators.fixed_point import aligned, meaning
from celosia.sw.operators.functions import ALONE, same_shape
from celosia.sw.operators.matrix import (
    convolution_shapes,
    convolution_sums,
    dense_shapes,
    dense_sums,
    lower_convolution,
    lower_dense,
)
from celosia.sw.operators.pooling import lower_pool, pool_shapes, spans
from celosia.sw.operators.reductions import lower_windows
from celosia.sw.operators.transposed import lower_transposed, transposed_shapes, transposed_sums
from celosia.sw.operators.windows import image, patches

_Arrays = Sequence[np.ndarray]

#: Elements of windows by row and by column, where pads of the graph do not count.
_COUNTS = ("rows", "columns")


def _scales(operand: Operand) -> np.ndarray:
    return np.array(operand.scales or [operand.scale], np.float32)


def _requantized(operator: HostOperator, sums: np.ndarray) -> list[np.ndarray]:
    """Return the results of sums of products, which wrap at 32 bits."""
    (source, weights), (output,) = operator.sources[:2], operator.results
    factor = factors(meaning(source), _scales(weights), meaning(output))
    result = requantized(sums.astype(np.int32).astype(np.int64), factor, output.zero_point)
    return [result.reshape(len(result), *output.shape)]


def _run_product(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    if operator.kind == "QLinearConvTranspose":
        sums = transposed_sums(operator, arrays)
        bias = arrays[2].reshape(-1).astype(np.int64) if len(arrays) > 2 else 0
        return _requantized(operator, sums + bias)
    if operator.kind == "QLinearMatMul":
        return _requantized(operator, dense_sums(operator, arrays))
    sums = convolution_sums(operator, arrays)
    return _requantized(operator, sums.reshape(len(arrays[0]), -1, sums.shape[-1]))


def _pair_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.flag("unsigned")
    return two(operator, attributes)


def _run_pair(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    compute = added if operator.kind == "QLinearAdd" else multiplied
    first, second = aligned(operator, arrays)
    ends = meaning(operator.sources[0]), meaning(operator.sources[1]), meaning(operator.results[0])
    return [compute(first, second, ends, unsigned=operator.attributes["unsigned"])]


def _lower_line(lowering: Lowering, operation: Operation) -> None:
    """Lower the sum or product of a value and a constant for each channel."""
    graph, output = lowering.graph, lowering.graph.tensors[operation.outputs[0]]
    tensors = [graph.tensors[number] for number in operation.inputs]
    position = 0 if tensors[0].data is None else 1
    source, constant = tensors[position], tensors[1 - position]
    if constant.data is None or operation.inputs[position] not in lowering.views:
        raise CompileError("wanted a value that the core computes, and a constant")
    view = lowering.views[operation.inputs[position]]
    channels = lowering.values[view.value].channels
    shapes = source.shape, constant.shape[-1:], constant.elements
    if shapes != (output.shape, (channels,), channels):
        raise CompileError(f"wanted a constant for each of {channels} channels")
    ordered = ends_of_two(graph, operation)
    meanings = ordered[position], ordered[1 - position], ordered[2]
    x, numbers = np.arange(-128, 128)[None], constant.data.reshape(-1, 1)
    centred = numbers[:, 0].astype(np.int64) - meanings[1].zero_point
    first, second, step = (one.scale for one in meanings)
    if operation.kind == "QLinearAdd":
        compute, slopes = added, np.full(channels, first / step)
        offsets = (centred * second - first * meanings[0].zero_point) / step
    else:
        compute, slopes = multiplied, first * second / step * centred
        offsets = -slopes * meanings[0].zero_point
    operands = (numbers, x) if position else (x, numbers)
    tables = compute(*operands, ordered, unsigned=operation.attributes["unsigned"])
    weights, scaling = lines(tables, slopes, offsets, meanings[2].zero_point)
    product(
        lowering, operation, view, weights.reshape(channels, 1, 1, 1), scaling, depth_multiplier=1
    )


def _lower_sum(lowering: Lowering, operation: Operation) -> None:
    """Lower the sum of two values of one shape, or of one and a constant for each channel."""
    if any(lowering.graph.tensors[number].data is not None for number in operation.inputs):
        _lower_line(lowering, operation)
        return
    sources = [view.value for view in addends(lowering, operation)]
    unsigned = operation.attributes["unsigned"]
    scalings = addition_scalings(*ends_of_two(lowering.graph, operation), unsigned=unsigned)
    add_sum(lowering, operation, sources, scalings)


def _mean_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(len(operator.sources) == 1, "1 input", len(operator.sources))
    batch, _, _, channels = image(operator.sources[0].shape)
    return [(batch, 1, 1, channels)]


def _run_mean(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    (source,), (output,) = operator.sources, operator.results
    count = source.shape[1] * source.shape[2]
    sums = arrays[0].sum(axis=(2, 3), keepdims=True, dtype=np.int64) - source.zero_point * count
    factor = np.float32(source.scale) / (np.float32(output.scale) * np.float32(count))
    return [requantized(sums, factor, output.zero_point)]


def _lower_mean(lowering: Lowering, operation: Operation) -> None:
    """Lower the mean of all pixels."""
    view = lowering.view(operation)
    size = view.height, view.width
    scaling = mean_scaling(*ends(lowering.graph, operation), view.height * view.width)
    lower_windows(lowering, operation, view, size, scaling, Window.SUM)


def _average_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.flag("unsigned")
    ((_, *counts, _),) = shapes = pool_shapes(operator, attributes)
    for name, count in zip(_COUNTS, counts, strict=True):
        if name in operator.attributes:
            attributes.integers(name, count, 1, EXTENT)
    return shapes


def _run_average(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    """Return means of windows, whose elements are added row by row."""
    (source,), (output,), attributes = operator.sources, operator.results, operator.attributes
    x = arrays[0].reshape(-1, *source.shape[1:])
    views = patches(x, attributes["window"], output.shape[1:3], attributes, source.zero_point)
    taps = np.moveaxis(views.reshape(*views.shape[:4], -1), -1, 0)
    rows, columns = spans(operator, 0), spans(operator, 1)
    spanned = ([end - first for first, end in ends] for ends in (rows, columns))
    pairs = zip(_COUNTS, spanned, strict=True)
    counts = np.outer(*(attributes.get(name, inside) for name, inside in pairs))
    ends = meaning(source), meaning(output)
    result = averaged(taps, counts[..., None], *ends, unsigned=attributes["unsigned"])
    return [result.reshape(len(arrays[0]), *output.shape)]


def _lower_average(lowering: Lowering, operation: Operation) -> None:
    """Lower means of windows whose quotients are never near a half."""
    if _COUNTS[0] in operation.attributes:
        raise CompileError("wanted pads that count, or those of SAME")
    scaling = partial(average_scaling, *ends(lowering.graph, operation))
    lower_pool(lowering, operation, scaling, Window.SUM)


def _softmax_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    require(bool(operator.sources[0].shape), "at least 1 dimension")
    return same_shape(operator, attributes)


def _run_softmax(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    (source,), (output,) = operator.sources, operator.results
    return [softmax(arrays[0], meaning(source), meaning(output))]


def _table_shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    attributes.integers("entries", 256, -128, 127)
    return same_shape(operator, attributes)


def _run_table(operator: HostOperator, arrays: _Arrays) -> list[np.ndarray]:
    entries = np.array(operator.attributes["entries"], np.int8)
    return [entries[arrays[0].view(np.uint8)]]


_KERNELS = "constant int8 weights, a scale for each channel or one"
_FACTORS = "factors that 31 bits round half to even for all sums but one in 250,000"

OPERATORS = (
    Operator(
        kind="LookupTable",
        shapes=_table_shapes,
        kernel=_run_table,
        lower=lookup,
        table=lambda _, __, attributes: np.array(attributes["entries"], np.int64),
        core=f"any function of one element: {ALONE}",
        host="int8",
    ),
    Operator(
        kind="QLinearAdd",
        shapes=_pair_shapes,
        broadcasts=True,
        kernel=_run_pair,
        lower=_lower_sum,
        core="two values of one shape, where 32 bits give all 65,536 sums; a value and a constant "
        "for each channel",
        host="shapes that broadcast",
    ),
    Operator(
        kind="QLinearAveragePool",
        shapes=_average_shapes,
        kernel=_run_average,
        lower=_lower_average,
        core="windows up to 255 × 255 whose averages are not too near a half",
        host="any window",
    ),
    *(
        Operator(
            kind=kind,
            shapes=shapes,
            weighted=True,
            kernel=_run_product,
            lower=lower(product_scaling),
            core=f"{_KERNELS}; {_FACTORS}",
            host="other channels: any factors",
        )
        for kind, shapes, lower in (
            ("QLinearConv", convolution_shapes, lower_convolution),
            ("QLinearMatMul", dense_shapes, lower_dense),
        )
    ),
    Operator(
        kind="QLinearBatchMatMul",
        shapes=batch_shapes,
        takes_batch=True,
        kernel=lambda operator, arrays: _requantized(operator, batch_sums(operator, arrays)),
        lower=lambda lowering, operation: dynamic_product(lowering, operation, computed_scaling),
        option=weights_option,
        core=f"with `activation_weights` two computed inputs; {_FACTORS}",
        host="QLinearMatMul of two inputs that are computed; batches broadcast",
    ),
    Operator(
        kind="QLinearConvTranspose",
        shapes=transposed_shapes,
        operands=(2, 1, 3),
        weighted=True,
        kernel=_run_product,
        lower=lower_transposed(product_scaling),
        core=f"any kernel, stride and padding; {_KERNELS}; {_FACTORS}",
        host="the same, any factors",
    ),
    Operator(
        kind="QLinearGlobalAveragePool",
        shapes=_mean_shapes,
        kernel=_run_mean,
        lower=_lower_mean,
        core=_FACTORS,
        host="any factor",
    ),
    Operator(
        kind="QLinearMul",
        shapes=_pair_shapes,
        broadcasts=True,
        kernel=_run_pair,
        lower=_lower_line,
        core="a value and a constant for each channel",
        host="shapes that broadcast",
    ),
    Operator(
        kind="QLinearSoftmax",
        shapes=_softmax_shapes,
        kernel=_run_softmax,
        host="over the last dimension",
    ),
    Operator(
        kind="QuantizeLinear",
        shapes=same_shape,
        types=(("float32",), ("int8",)),
        kernel=lambda operator, arrays: [quantized(arrays[0], meaning(operator.results[0]))],
        host="float32 to int8",
    ),
)
