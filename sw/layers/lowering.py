"""State of the lowering of a graph: values, layers, and the view of each tensor."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from celosia.hw.arch.isa import Mode, Window
from celosia.sw.ir.graph import Graph, Operation
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.network import Network
from celosia.sw.layers.quantize import clamped, ends, identity_scaling
from celosia.sw.layers.shapes import Axis, items_of, padding, shapes_of, taken
from celosia.sw.layers.spec import Layer, Pooling, Sum, Transpose, Windows
from celosia.sw.layers.tables import table
from celosia.sw.layers.values import Scaling, Value

if TYPE_CHECKING:
    from celosia.sw.layers.record import Operator

#: Operators that only clamp.
ACTIVATIONS = ("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1")


@dataclass(frozen=True)
class View:
    """A tensor as a rectangle of a value; it may reach past the value's edges."""

    value: int  #: The value.
    #: First row and column, numbers of rows and columns.
    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True, eq=False)
class Tail:
    """Operators after a tensor that can be fused into the layer that makes it."""

    last: int  #: The tensor after the last operator.
    scaling: Scaling  #: Scaling with the clamps of activations.
    kinds: list[str]  #: Operators fused.
    table: np.ndarray | None = None  #: Table as in ``Product``.


class Lowering:
    """A graph during its lowering to layers.

    - ``graph``: the model, or a part of it.
    - ``operators``: records of operators, by kind.
    - ``items``: batch, if the model's is known.
    - ``views``: tensors computed so far.
    - ``shapes``: rows, columns and channels of tensors.
    - ``fused``: positions of operators fused into other layers.

    Raises CompileError if tensors are of different batches.
    """

    def __init__(
        self, graph: Graph, operators: Mapping[str, "Operator"], items: int | None = None
    ) -> None:
        self.graph = graph
        self.operators = operators
        self.items = items_of(graph) if items is None else items
        self.shapes = shapes_of(graph, self.items)
        self.values: list[Value] = []
        self.views: dict[int, View] = {}
        self.layers: list[Layer] = []
        self.fused: set[int] = set()
        self.states = {state.tensor for state in graph.states}
        #: Matrices that products of several pairs load, one pair after the other.
        self.in_turn: dict[Value, int] = {}
        #: Layers that update some rows of weights, by the inputs of the operation.
        self.updates: dict[tuple[int, ...], list[Layer]] = {}
        self.readers: dict[int, list[Operation]] = {}
        for operation in graph.operations:
            for number in operation.inputs:
                self.readers.setdefault(number, []).append(operation)
        for number in graph.inputs:
            self.add(number, self.shapes[number], is_input=True)

    def finish(self) -> dict[int, int]:
        """Return the values of the outputs; those that are views are copied."""
        outputs = {number: self.output_value(number) for number in self.graph.outputs}
        for value in outputs.values():
            self.values[value] = replace(self.values[value], is_output=True)
        return outputs

    def network(self, layers: tuple[Layer, ...], outputs: dict[int, int]) -> Network:
        """Return the network of some layers."""
        return Network(
            values=tuple(self.values),
            layers=layers,
            items=self.items,
            inputs={number: self.views[number].value for number in self.graph.inputs},
            outputs=outputs,
        )

    def add(self, number: int, shape: tuple[int, int, int], *, is_input: bool = False) -> int:
        """Return a new value for a tensor, which from now on is all of it."""
        meaning = self.graph.tensors[number].quantization
        # Values without scale are only moved: the bytes around them never matter.
        fill = meaning.zero_point if meaning else 0
        self.views[number] = view = self._new(number, shape, fill=fill, is_input=is_input)
        return view.value

    def constant(self, number: int, contents: np.ndarray) -> View:
        """Return a new value for a constant: int8, shape ``(height, width, channels)``.

        The tensor has no view: other operators may need it in another shape.
        """
        return self._new(number, contents.shape, is_input=True, contents=contents)

    def _new(self, number: int, shape: tuple[int, ...], **fields: Any) -> View:
        """Return all of a new value with the name of a tensor; ``about``: fields of ``Value``."""
        height, width, channels = shape
        name = self.graph.tensors[number].name
        self.values.append(
            Value(name=name, height=height, width=width, channels=channels, **fields)
        )
        return View(len(self.values) - 1, 0, 0, height, width)

    def view(self, operation: Operation) -> View:
        """Return the view of an operator's first input.

        Raises CompileError if the core does not compute it.
        """
        number = operation.inputs[0]
        if number not in self.views:
            constant = self.graph.tensors[number].data is not None
            what = "that is not constant" if constant else "that the core computes"
            raise CompileError(f"wanted an input {what}")
        return self.views[number]

    def extents(self, number: int) -> tuple[int, int, int]:
        """Return rows, columns and channels of the view of a tensor."""
        return self.extents_of(self.views[number])

    def extents_of(self, view: View) -> tuple[int, int, int]:
        """Return rows, columns and channels of a view."""
        return view.height, view.width, self.values[view.value].channels

    def covers(self, view: View) -> bool:
        """Return whether a view is all of its value."""
        value = self.values[view.value]
        return view == View(view.value, 0, 0, value.height, value.width)

    def output_value(self, number: int) -> int:
        """Return the value of an output of the graph, copied if it is only a view.

        Raises CompileError if it is an input of the graph, or not computed.
        """
        name = self.graph.tensors[number].name
        operation = next((o for o in self.graph.operations if number in o.outputs), None)
        if operation is None or number not in self.views:
            requirement = "an output that an operator computes"
            raise CompileError(f"wanted {requirement}, got an input", layer=name)
        view = self.views[number]
        if self.covers(view) and not self.values[view.value].is_input:
            return view.value
        return self.copy(operation, number, view)

    def copy(self, operation: Operation, number: int, view: View) -> int:
        """Return a new value with the contents of a view; the tensor becomes all of it."""
        return self.vector(operation, view, number=number, kind="COPY")

    def take(self, operation: Operation, view: View, places: Sequence[Sequence[int]]) -> View:
        """Return rows and columns ``places`` of a view as a new value for the result."""
        number, fill = operation.outputs[0], self.values[view.value].fill
        for axis in (1, 0):
            indices = [list(range(view.height)), list(range(view.width))]
            if indices[axis] == list(places[axis]):
                continue
            indices[axis] = list(places[axis])
            # Most channels repeat earlier ones.
            strides = [1, 1]
            strides[axis] = int(2 * len(set(indices[axis])) > len(indices[axis]))
            stride = strides[0], strides[1]
            windows = taken(indices[0], indices[1], stride, view.top, view.left)
            shape = len(indices[0]), len(indices[1]), self.values[view.value].channels
            self.vector(operation, view, windows=windows, shape=shape, stride=stride)
            view = self.views[number]
            self.values[view.value] = replace(self.values[view.value], fill=fill)
        self.views[number] = view
        return view

    def pixel_windows(self, view: View) -> tuple[Windows, ...]:
        """Return windows of one pixel over a whole view."""
        count, source = (view.height, view.width), (view.top, view.left)
        return (Windows(result=(0, 0), count=count, source=source, size=(1, 1)),)

    def windows(
        self,
        operation: Operation,
        extents: tuple[int, int],
        counts: tuple[int, int] | None = None,
    ) -> list[Axis]:
        """Return the windows of a pooling over rows and columns of its input.

        ``counts``: rows and columns of results, those of the operator unless given.
        """
        attributes = operation.attributes
        counts = counts or self.shapes[operation.outputs[0]][:2]
        ways = zip(extents, attributes["window"], attributes["stride"], counts, strict=True)
        return [
            Axis(-padding(attributes["padding"], n, size, step, count), step, count, size, n)
            for n, size, step, count in ways
        ]

    def vector(
        self,
        operation: Operation,
        view: View,
        *,
        number: int | None = None,
        kind: str = "",
        windows: tuple[Windows, ...] = (),
        scalings: Sequence[Scaling] = (),
        shape: tuple[int, int, int] | None = None,
        seen: tuple[int, int, int] | None = None,
        stride: tuple[int, int] = (1, 1),
        combine: Window = Window.MAX,
        table: np.ndarray | None = None,
        exponentials: np.ndarray | None = None,
    ) -> int:
        """Add work of the vector unit that makes a tensor; return its value.

        It copies each pixel of the view to the operator's result unless arguments, as of
        ``Pooling``, differ.
        """
        number = operation.outputs[0] if number is None else number
        kind = kind or operation.kind
        shape = shape or seen or (view.height, view.width, self.values[view.value].channels)
        name = self.graph.tensors[number].name or f"{kind.lower()}_{operation.place}"
        self.layers.append(
            Pooling(
                name=name,
                kind=kind,
                place=operation.place,
                source=view.value,
                result=self.add(number, shape),
                combine=combine,
                stride=stride,
                windows=windows or self.pixel_windows(view),
                scalings=tuple(scalings) or (identity_scaling(),),
                seen=seen,
                table=table,
                exponentials=exponentials,
            )
        )
        return self.views[number].value

    def transpose(
        self,
        operation: Operation,
        source: int,
        seen: tuple[int, int, int],
        shape: tuple[int, int, int],
    ) -> None:
        """Add a copy of a value with rows and columns swapped: the result, of a shape.

        ``seen``: rows, columns and channels of the source, which may be one row.
        """
        number, count = operation.outputs[0], shape[:2]
        self.layers.append(
            Transpose(
                name=self.graph.tensors[number].name or f"transpose_{operation.place}",
                kind=operation.kind,
                place=operation.place,
                source=source,
                result=self.add(number, shape),
                combine=Window.MAX,
                stride=(1, 1),
                windows=(Windows(result=(0, 0), count=count, source=(0, 0), size=(1, 1)),),
                scalings=(identity_scaling(),),
                seen=seen,
            )
        )

    def tail(self, last: int, scaling: Scaling) -> Tail:
        """Fuse activations that follow a tensor, and operators by table after these."""
        kinds: list[str] = []
        while (after := self.follower(last)) is not None and after.kind in ACTIVATIONS:
            if not self.same_scale(last, after.outputs[0]):
                break
            last = after.outputs[0]
            output = self.graph.tensors[last].quantization
            assert output
            scaling = clamped(scaling, after.kind, output)
            kinds.append(after.kind)
            self.fused.add(after.place)
        last, more, entries = self.looked_up(last)
        return Tail(last, scaling, kinds + more, entries)

    def looked_up(
        self, last: int, entries: np.ndarray | None = None
    ) -> tuple[int, list[str], np.ndarray | None]:
        """Fuse operators by table that follow a tensor, after ``entries`` if given.

        - ``last`` (result): the tensor after the last operator.
        - ``kinds`` (result): their names.
        - ``entries`` (result): one table for all of them, as in ``Product``.
        """
        kinds: list[str] = []
        while (after := self.follower(last)) is not None and self.tabulated(after):
            entries = self.table(after, entries)
            last = after.outputs[0]
            kinds.append(after.kind)
            self.fused.add(after.place)
        return last, kinds, entries

    def table(self, operation: Operation, before: np.ndarray | None = None) -> np.ndarray:
        """Return the table of an operator, after another table if there is one.

        Raises CompileError if the kernel cannot compute it.
        """
        fill = self.operators[operation.kind].table
        assert fill
        entries = table(fill, *ends(self.graph, operation), operation.attributes)
        return entries if before is None else entries[before.view(np.uint8)]

    def tabulated(self, operation: Operation) -> bool:
        """Return whether a table computes an operation."""
        return self.operators[operation.kind].tabulated(operation)

    def follower(self, number: int) -> Operation | None:
        """Return the only operation that reads a tensor, if nothing else does."""
        readers = self.readers.get(number, [])
        return readers[0] if len(readers) == 1 and number not in self.graph.outputs else None

    def leads_to(self, number: int, kinds: Collection[str]) -> bool:
        """Return whether an operation of one of the kinds depends on a tensor."""
        waiting, seen = [number], {number}
        while waiting:
            for reader in self.readers.get(waiting.pop(), []):
                if reader.kind in kinds:
                    return True
                new = set(reader.outputs) - seen
                seen |= new
                waiting += new
        return False

    def same_scale(self, one: int, other: int) -> bool:
        """Return whether integers of two tensors have the same meaning."""
        first, second = self.graph.tensors[one].quantization, self.graph.tensors[other].quantization
        return first is not None and first.equals(second)


def lookup(lowering: Lowering, operation: Operation) -> None:
    """Lower an operator to a table of 256 entries, fused with the tables after it."""
    if not lowering.tabulated(operation):
        raise CompileError("wanted one slope for all channels")
    view = lowering.view(operation)
    entries = lowering.table(operation)
    last, kinds, entries = lowering.looked_up(operation.outputs[0], entries)
    kind = "+".join([operation.kind, *kinds])
    lowering.vector(operation, view, number=last, kind=kind, table=entries)


def add_sum(
    lowering: Lowering,
    operation: Operation,
    sources: Sequence[int],
    scalings: tuple[Scaling, Scaling, Scaling],
    *,
    tail: bool = True,
    mode: Mode = Mode.ADD,
    table: np.ndarray | None = None,
) -> int:
    """Add the sum of two values, with the operators after it if ``tail``; return its value."""
    number, place = operation.outputs[0], operation.place
    pair = [lowering.values[source] for source in sources]
    shape = (
        max(value.height for value in pair),
        max(value.width for value in pair),
        pair[0].channels,
    )
    name = lowering.graph.tensors[number].name or f"{operation.kind.lower()}_{place}"
    last, scaling, kinds = number, scalings[2], [operation.kind]
    if tail:
        fused = lowering.tail(number, scaling)
        last, scaling, table = fused.last, fused.scaling, fused.table
        kinds += fused.kinds
    lowering.layers.append(
        Sum(
            name=name,
            kind="+".join(kinds),
            place=place,
            source=sources[0],
            second=sources[1],
            result=lowering.add(last, shape),
            extents=shape,
            scalings=(*scalings[:2], scaling),
            mode=mode,
            table=table,
        )
    )
    return lowering.layers[-1].result
