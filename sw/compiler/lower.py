"""First pass: from the graph to the layers that the core runs, and what the host does after it.

Reshapes and paddings move nothing: they are views of a value, padding becomes bytes around it.
Maxima and activations behind a convolution become part of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from celosia.hw.arch.isa import Window
from celosia.sw.compiler.quantize import (
    activation_range,
    average_scaling,
    clamped,
    convolution_scaling,
    dense_scaling,
    ends,
    identity_scaling,
    keeps_order,
    mean_scaling,
    rescaling,
)
from celosia.sw.compiler.shapes import items_of, shapes_of
from celosia.sw.compiler.spec import (
    CompileError,
    HostStep,
    Layer,
    Network,
    Pool,
    Pooling,
    Product,
    Scaling,
    Value,
    Windows,
)
from celosia.sw.compiler.windows import Axis, padding, rectangles
from celosia.sw.graph import Graph, Operation

__all__ = ["lower"]

_ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")
_ONE = Pool(window=(1, 1), stride=(1, 1))


@dataclass(frozen=True)
class _View:
    """A tensor as a rectangle of a value; it may reach past the value's edges."""

    value: int
    top: int
    left: int
    height: int
    width: int


def lower(graph: Graph) -> Network:
    """Return the layers of a graph.

    Raises
    ------
    CompileError
        Naming the operator that cannot be run, and why.
    """
    return _Lowering(graph).network()


class _Lowering:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.items = items_of(graph)
        self.values: list[Value] = []
        self.views: dict[int, _View] = {}
        self.layers: list[Layer] = []
        self.host: list[HostStep] = []
        self.shapes = shapes_of(graph, self.items)
        self.readers: dict[int, list[Operation]] = {}
        for operation in graph.operations:
            for number in operation.inputs:
                self.readers.setdefault(number, []).append(operation)
        self.fused: set[int] = set()

    def network(self) -> Network:
        """Return the whole graph, lowered."""
        graph = self.graph
        for number in graph.inputs:
            self.add(number, is_input=True)
        for operation in graph.operations:
            if operation.place in self.fused:
                continue
            label = graph.label(operation)
            if operation.kind not in _LOWERINGS:
                raise CompileError(f"{label}: operator is not supported")
            if operation.inputs[0] not in self.views:
                constant = graph.tensors[operation.inputs[0]].data is not None
                what = "is not constant" if constant else "the core computes"
                raise CompileError(f"{label}: wanted an input that {what}")
            _LOWERINGS[operation.kind](self, operation, label)
        outputs = {number: self.whole(number) for number in graph.outputs}
        for value in outputs.values():
            self.values[value] = replace(self.values[value], is_output=True)
        return Network(
            values=tuple(self.values),
            layers=tuple(self.layers),
            host=tuple(self.host),
            items=self.items,
            inputs={number: self.views[number].value for number in graph.inputs},
            outputs=outputs,
        )

    def add(self, number: int, *, is_input: bool = False) -> int:
        """Return a new value for a tensor, which from now on is all of it."""
        tensor = self.graph.tensors[number]
        height, width, channels = self.shapes[number]
        assert tensor.quantization
        self.values.append(
            Value(
                name=tensor.name,
                height=height,
                width=width,
                channels=channels,
                fill=tensor.quantization.zero_point,
                is_input=is_input,
            )
        )
        self.views[number] = _View(len(self.values) - 1, 0, 0, height, width)
        return len(self.values) - 1

    def whole(self, number: int) -> int:
        """Return the value that an output of the graph is, copied where it is but a view."""
        if number not in self.views:
            name = self.graph.tensors[number].name
            raise CompileError(f"output {name!r}: wanted a computed tensor")
        view = self.views[number]
        value = self.values[view.value]
        covers = (view.top, view.left, view.height, view.width) == (0, 0, value.height, value.width)
        if covers and not value.is_input:
            return view.value
        operation = next((o for o in self.graph.operations if number in o.outputs), None)
        if operation is None:
            name = self.graph.tensors[number].name
            raise CompileError(f"{name}: wanted an output that an operator computes, got an input")
        self._vector(operation, "COPY", view, self._each(view), [identity_scaling()])
        return self.views[number].value

    def follower(self, number: int) -> Operation | None:
        """Return the one operation that reads a tensor that nobody else sees."""
        readers = self.readers.get(number, [])
        return readers[0] if len(readers) == 1 and number not in self.graph.outputs else None

    def same_scale(self, one: int, other: int) -> bool:
        """Whether integers of two tensors mean the same."""
        first, second = self.graph.tensors[one].quantization, self.graph.tensors[other].quantization
        return first is not None and first.equals(second)

    def tail(self, last: int, scaling: Scaling) -> tuple[int, Scaling, list[str]]:
        """Take in activations that follow a tensor; return the tensor they end in."""
        kinds: list[str] = []
        while (after := self.follower(last)) is not None and after.kind in _ACTIVATIONS:
            if not self.same_scale(last, after.outputs[0]):
                break
            last = after.outputs[0]
            output = self.graph.tensors[last].quantization
            assert output
            scaling = clamped(scaling, after.kind, output)
            kinds.append(after.kind)
            self.fused.add(after.place)
        return last, scaling, kinds

    def pool(self, last: int, grid: tuple[int, int]) -> Operation | None:
        """Return the MAX_POOL_2D that may become part of the product that ends in a tensor."""
        after = self.follower(last)
        if after is None or after.kind != "MAX_POOL_2D":
            return None
        if not self.same_scale(last, after.outputs[0]):
            return None
        window, stride = after.attributes["window"], after.attributes["stride"]
        apart = window[0] <= stride[0] and window[1] <= stride[1]
        whole = all(axis.whole for axis in self._axes(after, grid))
        return after if apart and whole and max(window) <= 255 else None

    def product(
        self,
        operation: Operation,
        view: _View,
        weights: np.ndarray,
        scaling: Scaling,
        **geometry: tuple[int, int],
    ) -> None:
        """Add a product, together with what follows it and can be part of it."""
        last, kinds = operation.outputs[0], [operation.kind]
        name = self.graph.tensors[last].name or f"{operation.kind.lower()}_{operation.place}"
        macs = geometry["grid"][0] * geometry["grid"][1] * weights.size
        last, scaling, more = self.tail(last, scaling)
        kinds += more
        pool = _ONE
        after = self.pool(last, geometry["grid"]) if keeps_order(weights, scaling) else None
        if after is not None:
            self.fused.add(after.place)
            last = after.outputs[0]
            output = self.graph.tensors[last].quantization
            assert output
            scaling = clamped(scaling, after.attributes["activation"], output)
            pool = Pool(window=after.attributes["window"], stride=after.attributes["stride"])
            last, scaling, more = self.tail(last, scaling)
            kinds += ["MAX_POOL_2D", *more]
            rows, columns, _ = self.shapes[after.outputs[0]]
            # Sums that no window reads are not computed.
            geometry["grid"] = (
                (rows - 1) * pool.stride[0] + pool.window[0],
                (columns - 1) * pool.stride[1] + pool.window[1],
            )
        self.layers.append(
            Product(
                name=name,
                kind="+".join(kinds),
                place=operation.place,
                source=view.value,
                result=self.add(last),
                pool=pool,
                weights=weights,
                scaling=scaling,
                macs=macs,
                **geometry,
            )
        )

    def convolution(self, operation: Operation, label: str) -> None:
        """Lower CONV_2D."""
        view = self.views[operation.inputs[0]]
        data = self.graph.tensors[operation.inputs[1]].data
        assert data is not None
        weights = data.astype(np.int8)
        kernel = (weights.shape[1], weights.shape[2])
        attributes = operation.attributes
        rows, columns, _ = self.shapes[operation.outputs[0]]
        extents = zip(
            (view.height, view.width),
            kernel,
            attributes["dilation"],
            attributes["stride"],
            (rows, columns),
            strict=True,
        )
        before = [
            padding(attributes["padding"], extent, (taps - 1) * apart + 1, stride, count)
            for extent, taps, apart, stride, count in extents
        ]
        scaling = convolution_scaling(self.graph, operation, weights.reshape(len(weights), -1))
        self.product(
            operation,
            view,
            weights,
            scaling,
            origin=(view.top - before[0], view.left - before[1]),
            kernel=kernel,
            stride=attributes["stride"],
            dilation=attributes["dilation"],
            grid=(rows, columns),
        )

    def dense(self, operation: Operation, label: str) -> None:
        """Lower FULLY_CONNECTED: a convolution whose kernel covers what one row of it reads."""
        view = self.views[operation.inputs[0]]
        data = self.graph.tensors[operation.inputs[1]].data
        assert data is not None
        weights = data.astype(np.int8)
        channels, taps = weights.shape
        scaling = dense_scaling(self.graph, operation, weights)
        value = self.values[view.value]
        if value.height == 1 and view == _View(view.value, 0, 0, 1, value.width):
            kernel, depth, grid = (1, 1), taps, (1, value.bytes_per_item // taps)
        elif view.height * view.width * value.channels == taps:
            kernel, depth, grid = (view.height, view.width), value.channels, (1, 1)
        elif value.channels == taps:
            kernel, depth, grid = (1, 1), taps, (view.height, view.width)
        else:
            got = f"{view.height} x {view.width} x {value.channels}"
            raise CompileError(f"{label}: wanted rows of {taps} of its input, got {got}")
        self.product(
            operation,
            view,
            weights.reshape(channels, *kernel, depth),
            scaling,
            origin=(view.top, view.left),
            kernel=kernel,
            stride=(1, 1),
            dilation=(1, 1),
            grid=grid,
        )

    def reshape(self, operation: Operation, label: str) -> None:
        """Lower RESHAPE: the same bytes, moved only where a vector becomes an image."""
        view = self.views[operation.inputs[0]]
        value = self.values[view.value]
        if (view.top, view.left, view.height, view.width) != (0, 0, value.height, value.width):
            raise CompileError(f"{label}: wanted an input that is not padded")
        wanted, got = self.shapes[operation.outputs[0]], (value.height, value.width, value.channels)
        if wanted[0] == 1 or wanted == got:
            self.views[operation.outputs[0]] = view
        elif value.height == 1:
            seen = _View(view.value, 0, 0, *wanted[:2])
            windows = self._each(seen)
            self._vector(operation, operation.kind, seen, windows, [identity_scaling()], wanted)
        else:
            raise CompileError(f"{label}: wanted one shape of images, got {got} and {wanted}")

    def pad(self, operation: Operation, label: str) -> None:
        """Lower PAD: a view that reaches past the value's edges."""
        view = self.views[operation.inputs[0]]
        before, after = operation.attributes["before"], operation.attributes["after"]
        rank = len(before)
        if rank != 4 or before[0] or after[0] or before[3] or after[3]:
            raise CompileError(f"{label}: wanted padding of rows and columns, got {before, after}")
        if operation.attributes["value"] != self.values[view.value].fill:
            got = operation.attributes["value"]
            raise CompileError(f"{label}: wanted padding with the zero point, got {got}")
        self.views[operation.outputs[0]] = _View(
            view.value,
            view.top - before[1],
            view.left - before[2],
            view.height + before[1] + after[1],
            view.width + before[2] + after[2],
        )

    def pooling(self, operation: Operation, label: str) -> None:
        """Lower MAX_POOL_2D and AVERAGE_POOL_2D that stand alone."""
        view = self.views[operation.inputs[0]]
        output = self.graph.tensors[operation.outputs[0]].quantization
        assert output
        low, high = activation_range(operation.attributes["activation"], output)
        axes = self._axes(operation, (view.height, view.width))
        windows = rectangles(axes, view.top, view.left)
        if operation.kind == "MAX_POOL_2D":
            scalings = [identity_scaling(low, high)]
            combine = Window.MAX
        else:
            counts = sorted({w.size[0] * w.size[1] for w in windows})
            scalings = [average_scaling(label, count, low, high) for count in counts]
            windows = tuple(
                replace(w, parameters=counts.index(w.size[0] * w.size[1])) for w in windows
            )
            combine = Window.SUM
        stride = operation.attributes["stride"]
        self._vector(
            operation, operation.kind, view, windows, scalings, stride=stride, combine=combine
        )

    def mean(self, operation: Operation, label: str) -> None:
        """Lower MEAN over rows and columns."""
        rank = len(self.graph.tensors[operation.inputs[0]].shape)
        if rank != 4 or operation.attributes["axes"] != (1, 2):
            got = f"{operation.attributes['axes']} of {rank} dimensions"
            raise CompileError(f"{label}: wanted the mean over axes (1, 2) of 4, got axes {got}")
        view = self.views[operation.inputs[0]]
        scaling = mean_scaling(*ends(self.graph, operation), view.height * view.width)
        axes = [Axis(0, 1, 1, extent, extent) for extent in (view.height, view.width)]
        windows = rectangles(axes, view.top, view.left)
        self._vector(operation, operation.kind, view, windows, [scaling], combine=Window.SUM)

    def pointwise(self, operation: Operation, label: str) -> None:
        """Lower RELU and its kind, and QUANTIZE."""
        activation = operation.kind if operation.kind in _ACTIVATIONS else "NONE"
        view = self.views[operation.inputs[0]]
        scaling = rescaling(*ends(self.graph, operation), activation)
        self._vector(operation, operation.kind, view, self._each(view), [scaling])

    def softmax(self, operation: Operation, label: str) -> None:
        """Leave SOFTMAX to the host, which can do what comes last."""
        result = operation.outputs[0]
        if self.readers.get(result) or result not in self.graph.outputs:
            raise CompileError(f"{label}: runs on the host, wanted it at the end of the model")
        self.views[result] = self.views[operation.inputs[0]]
        source = self.graph.tensors[operation.inputs[0]].quantization
        assert source
        self.host.append(
            HostStep(
                name=self.graph.tensors[result].name,
                kind=operation.kind,
                place=operation.place,
                output=self.graph.outputs.index(result),
                attributes={"beta": operation.attributes["beta"], "scale": source.scale},
            )
        )

    def _each(self, view: _View) -> tuple[Windows, ...]:
        """Return windows of one pixel, over a whole view."""
        axes = [Axis(0, 1, extent, 1, extent) for extent in (view.height, view.width)]
        return rectangles(axes, view.top, view.left)

    def _axes(self, operation: Operation, extents: tuple[int, int]) -> list[Axis]:
        """Return the windows of a pooling over rows and columns."""
        attributes = operation.attributes
        counts = self.shapes[operation.outputs[0]][:2]
        ways = zip(extents, attributes["window"], attributes["stride"], counts, strict=True)
        return [
            Axis(-padding(attributes["padding"], n, size, step, count), step, count, size, n)
            for n, size, step, count in ways
        ]

    def _vector(
        self,
        operation: Operation,
        kind: str,
        view: _View,
        windows: tuple[Windows, ...],
        scalings: list[Scaling],
        seen: tuple[int, int, int] | None = None,
        *,
        stride: tuple[int, int] = (1, 1),
        combine: Window = Window.MAX,
    ) -> None:
        """Add work of the vector unit, together with activations that follow it."""
        last, kinds = operation.outputs[0], [kind]
        self.layers.append(
            Pooling(
                name=self.graph.tensors[last].name or f"{kind.lower()}_{operation.place}",
                kind="+".join(kinds),
                place=operation.place,
                source=view.value,
                result=self.add(last),
                combine=combine,
                stride=stride,
                windows=windows,
                scalings=tuple(scalings),
                seen=seen,
            )
        )


_LOWERINGS: dict[str, Callable[[_Lowering, Operation, str], None]] = {
    "AVERAGE_POOL_2D": _Lowering.pooling,
    "CONV_2D": _Lowering.convolution,
    "FULLY_CONNECTED": _Lowering.dense,
    "MAX_POOL_2D": _Lowering.pooling,
    "MEAN": _Lowering.mean,
    "PAD": _Lowering.pad,
    "PADV2": _Lowering.pad,
    "QUANTIZE": _Lowering.pointwise,
    "RELU": _Lowering.pointwise,
    "RELU6": _Lowering.pointwise,
    "RELU_N1_TO_1": _Lowering.pointwise,
    "RESHAPE": _Lowering.reshape,
    "SOFTMAX": _Lowering.softmax,
}
