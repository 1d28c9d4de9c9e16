"""A training step in groups of images, for a batch that does not fit the core at once."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph, runs_alone
from celosia.sw.ir.graph import Graph, Operation
from celosia.sw.ir.program import Program
from celosia.sw.operators.step_groups import row_axis

#: Groups of images, of dense layers, and of the gradients of dense layers: see ``in_groups``.
Groups = tuple[int, int, int]

#: Pairs that the gradient of a dense layer is a sum of, at most, if other operations are not in
#: groups: tiles of a few rows take the array as long as full ones.
_MOST_PAIRS = 8


def compile_step(
    graph: Graph, batch: int, config: Config, groups: Groups | None = None
) -> tuple[Program, Groups]:
    """Return the program of a step for a core, and its groups: see ``in_groups``.

    They are as few as it needs to run alone, unless given. Dense layers take the batch at once if
    they can. If no groups help, the host runs operations.
    """
    groups = groups or _fewest(graph, batch, config)
    return compile_graph(in_groups(graph, batch, *groups), config), groups


def _fewest(graph: Graph, batch: int, config: Config) -> Groups:
    """Return the fewest groups in which a step runs on the core alone; one if none do.

    A step that runs in some groups is taken to run in more.
    """

    @cache
    def running(count: int) -> Groups | None:
        pairs = max(n for n in range(1, _MOST_PAIRS + 1) if count % n == 0)
        for groups in dict.fromkeys(((count, 1, 1), (count, 1, pairs), (count, count, count))):
            if runs_alone(in_groups(graph, batch, *groups), config):
                return groups
        return None

    counts = [n for n in range(1, batch + 1) if batch % n == 0]
    # Most steps run at once.
    first = 0 if running(1) else bisect_left(counts, True, key=lambda n: running(n) is not None)
    return (first < len(counts) and running(counts[first])) or (1, 1, 1)


def in_groups(graph: Graph, batch: int, images: int, rows: int = 1, pairs: int = 1) -> Graph:
    """Return the graph of a step whose operations are made for some images at a time.

    Inputs, outputs and states are the same, byte by byte. The products that a gradient of weights
    is a sum of are pairs of operands of one operation.

    - ``batch``: images of the step.
    - ``images``: groups of what has pixels. ``rows``: those of what has a row for each image,
      1 or ``images``. ``pairs``: those of the gradients of these, between the two.
    """
    return graph if images == 1 else _Groups(graph, batch, images, rows, pairs).graph()


class _Groups:
    """Graph of a step in groups under construction."""

    def __init__(self, graph: Graph, batch: int, images: int, rows: int, pairs: int) -> None:
        self.source, self.batch, self.images, self.rows = graph, batch, images, rows
        self.pairs = pairs
        self.tensors, self.operations = list(graph.tensors), list[Operation]()
        #: Tensors of the parts of a tensor, by tensor and number of parts; those made in parts.
        self.parts: dict[tuple[int, int], list[int]] = {}
        self.results: dict[int, list[int]] = {}
        #: Groups in which tensors are made.
        self.counts: dict[int, int] = {}
        states = {state.tensor for state in graph.states}
        constants = {n for n, tensor in enumerate(graph.tensors) if tensor.data is not None}
        self.shared = states | constants

    def graph(self) -> Graph:
        """Return the graph."""
        others: list[Operation] = []
        sums: list[Operation] = []
        before = 1
        for operation in self.source.operations:
            count = self.counts[operation.outputs[0]] = self.count(operation)
            if count != before:
                self.add(others, sums, before)
                others, sums, before = [], [], count
            (sums if operation.attributes.get("stepped") else others).append(operation)
        self.add(others, sums, before)
        for number in self.source.outputs:
            self.part(number, 1)
        return replace(self.source, tensors=tuple(self.tensors), operations=tuple(self.operations))

    def count(self, operation: Operation) -> int:
        """Return the groups of an operation: those of images if an end has pixels."""
        ends = [*operation.outputs, *operation.inputs]
        if operation.kind == "RESHAPE" and operation.inputs[0] not in self.counts:
            ends = operation.outputs
        if operation.attributes.get("stepped"):
            ends = operation.inputs[:2]
        shapes = [self.tensors[n].shape for n in ends if n not in self.shared]
        has_pixels = any(len(x) == 4 or math.prod(x[:-1]) > self.batch for x in shapes)
        return self.images if has_pixels else self.rows

    def add(self, others: Sequence[Operation], sums: Sequence[Operation], count: int) -> None:
        """Add operations, all those of a group before the next one, then sums of all groups."""
        if count == 1:
            for operation in sorted((*others, *sums), key=lambda one: one.place):
                if operation in sums:
                    self.add_sum(operation, self.pairs)
                    continue
                inputs = tuple(
                    n if n in self.shared else self.part(n, 1)[0] for n in operation.inputs
                )
                self.operate(operation, inputs, operation.outputs[0])
            return
        for group in range(count):
            for operation in others:
                self.add_part(operation, group, count)
        for operation in sums:
            self.add_sum(operation, count)

    def add_sum(self, operation: Operation, count: int) -> None:
        """Add a gradient: the sum of the products of some pairs."""
        pairs = zip(*(self.part(n, count) for n in operation.inputs[:2]), strict=True)
        inputs = *(n for pair in pairs for n in pair), *operation.inputs[2:]
        fields = {"pairs": count} if count > 1 else {}
        self.operate(operation, inputs, operation.outputs[0], **fields)

    def add_part(self, operation: Operation, group: int, count: int) -> None:
        """Add an operation of one group."""
        (number,) = operation.outputs
        result = self.tensors[number]
        shape = self.shape(number, count)
        self.tensors.append(replace(result, name=f"{result.name}_{group}", shape=shape))
        self.results.setdefault(number, []).append(len(self.tensors) - 1)
        self.parts[number, count] = self.results[number]
        output, pixels, inputs = len(self.tensors) - 1, math.prod(result.shape[1:-1]), []
        if operation.kind == "RESHAPE" and operation.inputs[0] not in self.results:
            length = self.batch // count
            self._take(operation.inputs[0], group * length, length, output)
            return
        for source in operation.inputs:
            rows = self.tensors[source].shape[row_axis(self.tensors[source].shape)]
            if source in self.shared:
                inputs.append(source)
            elif operation.kind == "TurnedConvolution" and rows == self.batch + pixels - 1:
                # Noise of overlapping rows: those of an image begin one after the last one's.
                length = self.batch // count
                inputs.append(self.taken(source, group * length, length + pixels - 1))
            else:
                inputs.append(self.part(source, count)[group])
        fields = {"count": shape} if operation.kind == "SLICE" else {}
        self.operate(operation, inputs, output, **fields)

    def operate(
        self, operation: Operation, inputs: Sequence[int], output: int, **fields: object
    ) -> None:
        """Add an operation."""
        attributes = {**operation.attributes, **fields}
        place = len(self.operations)
        self.operations.append(
            replace(
                operation,
                place=place,
                inputs=tuple(inputs),
                outputs=(output,),
                attributes=attributes,
            )
        )

    def shape(self, number: int, count: int) -> tuple[int, ...]:
        """Return the shape of one of some parts of a tensor."""
        shape = self.tensors[number].shape
        axis = row_axis(shape)
        return (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])

    def part(self, number: int, count: int) -> list[int]:
        """Return the tensors of so many parts of a tensor."""
        if (number, count) in self.parts:
            return self.parts[number, count]
        data = self.tensors[number].data
        if data is not None and count == 1:
            tensors = [number]
        elif data is not None:
            # Ones, which sum up the errors of all pixels.
            shape = (1, 1, data.shape[2] // count)
            name = self.tensors[number].name
            tensor = replace(self.tensors[number], shape=shape, data=np.ones(shape, np.int8))
            self.tensors.append(replace(tensor, name=name))
            tensors = [len(self.tensors) - 1] * count
        elif count == 1:
            tensors = [number]
            if number in self.results:
                self._operation("JoinedRows", self.results[number], number, {})
        else:
            self.part(number, 1)
            length = self.shape(number, count)[row_axis(self.tensors[number].shape)]
            tensors = [self.taken(number, part * length, length) for part in range(count)]
        self.parts[number, count] = tensors
        return tensors

    def taken(self, number: int, first: int, count: int) -> int:
        """Return a tensor of some rows of a tensor."""
        tensor = self.tensors[number]
        axis = row_axis(tensor.shape)
        shape = (*tensor.shape[:axis], count, *tensor.shape[axis + 1 :])
        self.tensors.append(replace(tensor, name=f"{tensor.name}_{first}", shape=shape))
        self._take(number, first, count, len(self.tensors) - 1)
        return len(self.tensors) - 1

    def _take(self, number: int, first: int, count: int, output: int) -> None:
        fields = {"first": first, "count": count}
        self._operation("TakenRows", (number,), output, fields)

    def _operation(
        self, kind: str, inputs: Sequence[int], output: int, fields: dict[str, int]
    ) -> None:
        self.operations.append(
            Operation(kind, len(self.operations), tuple(inputs), (output,), fields)
        )
