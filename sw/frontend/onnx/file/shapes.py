"""Shapes of the inputs of an ONNX model: extents that are free become fixed."""

from collections.abc import Mapping

import onnx

from celosia.sw.layers.node import ModelError

#: Shapes by the names of inputs; the empty name stands for the only input.
Shapes = Mapping[str, tuple[int, ...]]

#: Requirement of an input whose extents are free.
FREE = (
    "wanted fixed extents but the first; --shape NAME=1,3,224,224, in Python shapes, fixes those "
    "of an input"
)


def fix(model: onnx.ModelProto, shapes: Shapes) -> None:
    """Set the extents of inputs, and remove shapes inferred from others.

    A first extent that stays free is 1. Raises ModelError if there is no such input, or it has
    another shape.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [end for end in model.graph.input if end.name not in constants]
    names = [end.name for end in inputs]
    others = set(shapes).difference(names if len(names) != 1 else ["", *names])
    if others:
        got = min(others) or "a shape without a name"
        raise ModelError(f"--shape: wanted one of the inputs {', '.join(names)}, got {got}")
    del model.graph.value_info[:]
    extents: dict[str, int] = {}
    for end in inputs:
        shape = shapes.get(end.name, shapes.get(""))
        dimensions = end.type.tensor_type.shape.dim
        if shape is not None:
            _require_shape(end, shape)
        for axis, dimension in enumerate(dimensions):
            if not dimension.HasField("dim_value") and (shape or axis == 0):
                extent = shape[axis] if shape else 1
                if dimension.dim_param:
                    extents.setdefault(dimension.dim_param, extent)
                dimension.dim_value = extent
    for end in (*inputs, *model.graph.output):
        for dimension in end.type.tensor_type.shape.dim:
            if not dimension.HasField("dim_value") and dimension.dim_param in extents:
                dimension.dim_value = extents[dimension.dim_param]
    for end in model.graph.output:
        # The checker wants a shape; a shape of no dimensions stands for an unknown one.
        end.type.tensor_type.shape.SetInParent()
        if any(not dimension.HasField("dim_value") for dimension in end.type.tensor_type.shape.dim):
            del end.type.tensor_type.shape.dim[:]


def _require_shape(end: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    """Refuse a shape that an input cannot have."""
    dimensions = end.type.tensor_type.shape.dim
    good = len(dimensions) == len(shape) and all(
        not dimension.HasField("dim_value") or dimension.dim_value == extent
        for dimension, extent in zip(dimensions, shape, strict=True)
    )
    if not good:
        shown = ", ".join(
            str(dimension.dim_param or dimension.dim_value or "?") for dimension in dimensions
        )
        got = ", ".join(map(str, shape))
        raise ModelError(f"--shape of input {end.name!r}: wanted [{shown}], got [{got}]")
