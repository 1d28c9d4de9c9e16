"""Names of a model: texts that can be shown, and keys of inputs and outputs, no two equal.

Files need not have such names. One rule makes them, when a model is read: characters that cannot be
printed become ``_``; an input or output without a name is ``input`` or ``output``; the second of a
name ends in ``_2``, the third in ``_3``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from celosia.sw.ir.graph import Graph, short_name


def printable(name: str) -> str:
    """Return a name with ``_`` for each character that cannot be printed.

    Examples
    --------
    >>> printable("conv\\n1")
    'conv_1'
    """
    return "".join(one if one.isprintable() else "_" for one in name)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of which no two are equal: numbers follow those that an earlier one has.

    Examples
    --------
    >>> distinct(["x", "x", "x_2"])
    ('x', 'x_3', 'x_2')
    """
    names = tuple(names)
    taken, chosen = set(names), list[str]()
    for name in names:
        unique, count = name, 1
        while unique in chosen or (count > 1 and unique in taken):
            count += 1
            unique = f"{name}_{count}"
        chosen.append(unique)
    return tuple(chosen)


def with_names(graph: Graph) -> Graph:
    """Return a graph whose names can be printed, and are different for inputs and for outputs.

    ``graph``: as a file has it; inputs and outputs have the names of ``Graph.names``, else those of
    their tensors.
    """
    tensors = tuple(
        tensor if tensor.name.isprintable() else replace(tensor, name=printable(tensor.name))
        for tensor in graph.tensors
    )
    sides = zip(("input", "output"), (graph.inputs, graph.outputs), graph.names, strict=True)
    names = [
        distinct(
            printable(names[index] if index < len(names) else tensors[number].name) or role
            for index, number in enumerate(numbers)
        )
        for role, numbers, names in sides
    ]
    return replace(graph, name=printable(graph.name), tensors=tensors, names=(names[0], names[1]))


class Names(tuple[str, ...]):
    """Names of inputs or of outputs, and the other texts that users may give for each.

    These are the last of the names that a fused one lists, and the name of the tensor in the file,
    where they belong to one input or output alone.

    - ``names``: the names, no two equal.
    - ``tensors``: names of their tensors in the file, as many, or none.
    """

    keys: dict[str, str]  #: Name for each text that users may give.

    def __new__(cls, names: Iterable[str], tensors: Sequence[str] = ()) -> Self:
        """Return the names with their keys."""
        instance = super().__new__(cls, names)
        instance.keys = {name: name for name in instance}
        for others in ([short_name(name) for name in instance], tensors):
            single = (n for n, text in enumerate(others) if others.count(text) == 1)
            for index in single:
                instance.keys.setdefault(others[index], instance[index])
        return instance

    @property
    def shown(self) -> list[str]:
        """Short texts for messages, each of which ``keys`` has."""
        return [
            short if self.keys.get(short := short_name(name)) == name else name for name in self
        ]
