"""A graph during its rewriting."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor
from celosia.sw.layers.shapes import items_of


class Rewriting:
    """A graph during its rewriting.

    - ``graph``: the model.
    - ``tensors``, ``operations``: those of before, with changes.
    - ``alone``: an invocation is one sample, so that dimensions of 1 may move anywhere.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = list(graph.tensors)
        self.operations = list(graph.operations)
        self.alone = items_of(graph) == 1

    def maker(self, number: int, *kinds: str) -> Operation | None:
        """Return the operation that makes a tensor, if it is of one of the kinds."""
        found = (o for o in self.operations if number in o.outputs)
        operation = next(found, None)
        return operation if operation is not None and operation.kind in kinds else None

    def read_once(self, number: int) -> bool:
        """Return whether one operation reads a tensor, once, and it is no output of the model."""
        count = sum(operation.inputs.count(number) for operation in self.operations)
        return count == 1 and number not in self.graph.outputs

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[number].shape

    def fresh(
        self, like: int, shape: Sequence[int], data: np.ndarray | None = None, name: str = ""
    ) -> int:
        """Return the number of a new tensor, of the type and quantisation of another.

        Its shape makes its name another one, or ``name``.
        """
        old = self.tensors[like]
        name = f"{old.name}/{name or 'x'.join(map(str, shape))}"
        self.tensors.append(Tensor(name, tuple(shape), old.dtype, old.quantization, data))
        return len(self.tensors) - 1

    def channels(self, number: int, first: int, last: int) -> int:
        """Return the number of a new constant: those of the first dimension from first to last."""
        old = self.tensors[number]
        assert old.data is not None
        data, meaning = old.data[first:last], old.quantization
        if meaning is not None and len(meaning.scales) > 1:
            meaning = Quantization(
                meaning.scales[first:last], meaning.zero_points[first:last], meaning.axis
            )
        self.tensors.append(Tensor(old.name, data.shape, old.dtype, meaning, data))
        return len(self.tensors) - 1

    def place(self) -> int:
        """Return a number that no operation has."""
        return 1 + max(operation.place for operation in self.operations)

    def put(self, last: Operation, new: Sequence[Operation]) -> None:
        """Replace an operation by others, and leave out operations without readers."""
        place = self.operations.index(last)
        self.operations[place : place + 1] = new
        orphans = [number for number in last.inputs if number != -1]
        while orphans:
            number = orphans.pop()
            read = any(number in operation.inputs for operation in self.operations)
            maker = next((o for o in self.operations if number in o.outputs), None)
            ends = self.graph.outputs
            if maker is None or read or any(n in ends for n in maker.outputs):
                continue
            if not any(n in o.inputs for n in maker.outputs for o in self.operations):
                self.operations.remove(maker)
                orphans += [n for n in maker.inputs if n != -1]

    def finished(self) -> Graph:
        """Return the graph."""
        return replace(self.graph, tensors=tuple(self.tensors), operations=tuple(self.operations))


#: Returns what replaces an operation, None to leave it.
Rule = Callable[[Rewriting, Operation], Sequence[Operation] | None]


def reshape(place: int, source: int, result: int) -> Operation:
    """Return a RESHAPE; ``place`` is its number in the model."""
    return Operation("RESHAPE", place, (source,), (result,))
