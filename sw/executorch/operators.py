"""Operators of ExecuTorch's edge dialect as nodes of ONNX."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Type, inputs and attributes of a node of ONNX; arrays among the inputs are constants.
Form = tuple[str, list[Any], dict[str, Any]]

#: Operators without attributes. Their inputs are the tensors and numbers among the arguments.
_PLAIN = {
    "aten.abs.default": "Abs",
    "aten.add.Scalar": "Add",
    "aten.add.Tensor": "Add",
    "aten.alias_copy.default": "Identity",
    "aten.bmm.default": "MatMul",
    "aten.clone.default": "Identity",
    "aten.div.Scalar": "Div",
    "aten.div.Tensor": "Div",
    "aten.erf.default": "Erf",
    "aten.exp.default": "Exp",
    "aten.hardswish.default": "HardSwish",
    "aten.mm.default": "MatMul",
    "aten.mul.Scalar": "Mul",
    "aten.mul.Tensor": "Mul",
    "aten.neg.default": "Neg",
    "aten.relu.default": "Relu",
    "aten.sigmoid.default": "Sigmoid",
    "aten.sub.Scalar": "Sub",
    "aten.sub.Tensor": "Sub",
    "aten.tanh.default": "Tanh",
    "dim_order_ops._clone_dim_order.default": "Identity",
}

#: Operators that change the shape alone.
_VIEWS = (
    "aten.squeeze_copy.dims",
    "aten.unsqueeze_copy.default",
    "aten.view_copy.default",
)

_DEQUANTIZE = (
    "quantized_decomposed.dequantize_per_channel.default",
    "quantized_decomposed.dequantize_per_tensor.default",
)
QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"


def _single(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def _two(values: Any) -> list[int]:
    """Return the pixels of both axes; an argument may have one number for both."""
    return [*values] * 2 if len(values) == 1 else [*values]


def _window(a: Mapping[str, Any]) -> dict[str, Any]:
    pads = _two(a["padding"])
    return {
        "kernel_shape": _two(a["kernel_size"]),
        "strides": _two(a["stride"] or a["kernel_size"]),
        "pads": [*pads, *pads],
        "ceil_mode": int(a["ceil_mode"]),
    }


def _average_pool(a: Mapping[str, Any]) -> Form | None:
    counted = {"count_include_pad": int(a["count_include_pad"])}
    form = "AveragePool", [a["self"]], {**_window(a), **counted}
    return form if a["divisor_override"] is None else None


def _convolution(a: Mapping[str, Any]) -> Form:
    kind = "ConvTranspose" if a["transposed"] else "Conv"
    attributes = {
        "strides": [*a["stride"]],
        "pads": [*a["padding"], *a["padding"]],
        "dilations": [*a["dilation"]],
        "group": a["groups"],
    }
    if a["transposed"]:
        attributes["output_padding"] = [*a["output_padding"]]
    inputs = [a["input"], a["weight"], a["bias"]]
    return kind, inputs[: 2 + (a["bias"] is not None)], attributes


def _clip(low: Any, high: Any, source: Any) -> Form:
    low = -np.inf if low is None else low
    return "Clip", [source, _single(low), _single(np.inf if high is None else high)], {}


def _expand(a: Mapping[str, Any]) -> Form | None:
    """Return an expansion that changes no extent; matrix products have them."""
    shape = a["self"].meta["val"].shape
    same = all(new in (-1, old) for new, old in zip(a["size"], shape, strict=False))
    return ("Identity", [a["self"]], {}) if same and len(shape) == len(a["size"]) else None


def _gemm(a: Mapping[str, Any]) -> Form | None:
    form = "Gemm", [a["mat1"], a["mat2"], a["self"]], {}
    return form if a["alpha"] == a["beta"] == 1 else None


def _linear(a: Mapping[str, Any]) -> Form | None:
    inputs = [a["input"], a["weight"], a["bias"]]
    form = "Gemm", inputs[: 2 + (a["bias"] is not None)], {"transB": 1}
    return form if a["input"].meta["val"].ndim == 2 else None


def _slice(a: Mapping[str, Any]) -> Form:
    start, end = a["start"] or 0, np.iinfo(np.int64).max if a["end"] is None else a["end"]
    limits = [np.array([value]) for value in (start, end, a["dim"], a["step"])]
    return "Slice", [a["self"], *limits], {}


_FORMS: dict[str, Callable[[Mapping[str, Any]], Form | None]] = {
    "aten.addmm.default": _gemm,
    "aten.avg_pool2d.default": _average_pool,
    "aten.cat.default": lambda a: ("Concat", [*a["tensors"]], {"axis": a["dim"]}),
    "aten.clamp.default": lambda a: _clip(a["min"], a["max"], a["self"]),
    "aten.convolution.default": _convolution,
    "aten.expand_copy.default": _expand,
    "aten.gelu.default": lambda a: ("Gelu", [a["self"]], {"approximate": a["approximate"]}),
    "aten.hardtanh.default": lambda a: _clip(a["min_val"], a["max_val"], a["self"]),
    "aten.leaky_relu.default": lambda a: ("LeakyRelu", [a["self"]], {"alpha": a["negative_slope"]}),
    "aten.linear.default": _linear,
    "aten.max_pool2d_with_indices.default": lambda a: (
        ("MaxPool", [a["self"]], {**_window(a), "dilations": _two(a["dilation"])})
    ),
    "aten.mean.dim": lambda a: (
        "ReduceMean",
        [a["self"], np.array(a["dim"])],
        {"keepdims": int(a["keepdim"])},
    ),
    "aten.permute_copy.default": lambda a: ("Transpose", [a["self"]], {"perm": [*a["dims"]]}),
    "aten.slice_copy.Tensor": _slice,
}


def target_of(node: Any) -> str:
    """Return the name of a node's operator: ``aten.relu.default``."""
    return str(getattr(node.target, "_op", getattr(node.target, "__name__", node.target)))


def is_dequantize(node: Any) -> bool:
    """Return whether a node makes float of integers."""
    return target_of(node) in _DEQUANTIZE


def _arguments(node: Any) -> dict[str, Any]:
    """Return the arguments of a node by the names of its schema."""
    schema = getattr(node.target, "_op", node.target)._schema.arguments
    values = dict(zip((one.name for one in schema), node.args, strict=False))
    return {one.name: node.kwargs.get(one.name, one.default_value) for one in schema} | values


def form_of(node: Any, constant: Callable[[Any], np.ndarray | None]) -> Form | None:
    """Return a node as one of ONNX; None of an operator that has no such form.

    ``constant``: gives the array of a node, or None if it is computed.
    """
    kind = target_of(node)
    if kind == "getitem":
        return ("Identity", [node.args[0]], {}) if node.args[1] == 0 else None
    if kind not in {*_PLAIN, *_VIEWS, *_FORMS, *_DEQUANTIZE, QUANTIZE}:
        return None
    a = _arguments(node)
    if kind in _VIEWS:
        return "Reshape", [a["self"], np.array(node.meta["val"].shape, np.int64)], {}
    if kind in _PLAIN:
        operands = [a[name] for name in ("self", "other", "mat2") if name in a]
        numbers = [_single(x) if isinstance(x, int | float) else x for x in operands]
        return (_PLAIN[kind], numbers, {}) if a.get("alpha", 1) == 1 else None
    return _FORMS[kind](a) if kind in _FORMS else _scaled(kind, a, constant)


def _scaled(
    kind: str, a: Mapping[str, Any], constant: Callable[[Any], np.ndarray | None]
) -> Form | None:
    """Return QuantizeLinear or DequantizeLinear; None of types and ranges that ONNX has not."""
    name = str(a["dtype"]).removeprefix("torch.")
    if name not in ("int8", "uint8", "int32"):
        return None
    scales, points, axis = a.get("scale"), a.get("zero_point"), {}
    if "axis" in a:
        scales, points = constant(a["scales"]), constant(a["zero_points"])
        axis = {"axis": a["axis"]}
        if scales is None or points is None:
            return None
    limits = np.iinfo(name)
    if kind == QUANTIZE and (a["quant_min"], a["quant_max"]) != (limits.min, limits.max):
        return None
    ends = [np.asarray(scales, np.float32), np.asarray(points).astype(name)]
    return ("QuantizeLinear" if kind == QUANTIZE else "DequantizeLinear"), [a["input"], *ends], axis
