"""Signatures of ``.tflite`` files: names of inputs and outputs, and the subgraph that they run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tflite

from celosia.sw.frontend.tables import File
from celosia.sw.ir.graph import Signature
from celosia.sw.ir.names import printable
from celosia.sw.layers.node import ModelError, Node

#: Tables of options that name subgraphs, and their fields.
_CALLS = {
    "IF": (tflite.IfOptions, ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": (tflite.WhileOptions, ("CondSubgraphIndex", "BodySubgraphIndex")),
    "CALL_ONCE": (tflite.CallOnceOptions, ("InitSubgraphIndex",)),
}


@dataclass(frozen=True)
class Entry:
    """The subgraph that is read, and its signature."""

    subgraph: int
    signature: Signature | None
    choices: tuple[str, ...]  #: Names of the others.

    def names(
        self, inputs: Sequence[int], outputs: Sequence[int]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the subgraph's inputs and outputs; empty ones of those without."""
        if self.signature is None:
            return (), ()
        sides = (self.signature.inputs, inputs), (self.signature.outputs, outputs)
        first, second = (_named(*side) for side in sides)
        return first, second


def _named(pairs: Sequence[tuple[str, int]], numbers: Sequence[int]) -> tuple[str, ...]:
    left = {n: [name for name, tensor in pairs if tensor == n] for n in numbers}
    return tuple(left[n].pop(0) if left[n] else "" for n in numbers)


def read_signatures(file: File) -> dict[str, Signature]:
    """Return the signatures of a file by their keys."""
    count = file.count(file.model.SignatureDefsLength(), 4)
    signatures = [_signature(file, file.model.SignatureDefs(number)) for number in range(count)]
    return {signature.key: signature for signature in signatures}


def _signature(file: File, table: Any) -> Signature:
    sides = (table.InputsLength(), table.Inputs), (table.OutputsLength(), table.Outputs)
    inputs, outputs = (tuple(sorted(file.elements(*side, _pair))) for side in sides)
    return Signature(_text(table.SignatureKey()), int(table.SubgraphIndex()), inputs, outputs)


def _pair(table: Any) -> tuple[str, int]:
    return _text(table.Name()), int(table.TensorIndex())


def _text(content: bytes | None) -> str:
    return printable((content or b"").decode("utf-8", "replace"))


def entry_of(file: File, choice: str | None) -> Entry:
    """Return the subgraph to read: the first one unless another is wanted.

    ``choice``: key of a signature, else name or number of a subgraph. Raises ModelError if there is
    none.
    """
    signatures = read_signatures(file)
    others = _subgraphs(file, signatures)
    if choice is None:
        number = 0
    elif choice in signatures:
        number = signatures[choice].subgraph
    elif choice in others:
        number = others[choice]
    else:
        known = ", ".join(map(repr, (*signatures, *others))) or "none"
        raise ModelError(f"signature: wanted one of {known}, got {choice!r}")
    keys = [choice] if choice in signatures else []
    keys += [key for key, one in signatures.items() if one.subgraph == number and not keys]
    if choice is None and "serving_default" in keys:
        keys = ["serving_default"]
    signature = signatures[keys[0]] if keys else None
    choices = [key for key in signatures if signature is None or key != signature.key]
    choices += [name for name, n in others.items() if n != number]
    return Entry(number, signature, tuple(choices))


def _subgraphs(file: File, signatures: dict[str, Signature]) -> dict[str, int]:
    """Return the subgraphs that no signature and no operator names, by name or number."""
    count = file.count(file.model.SubgraphsLength(), 4)
    named = {*(one.subgraph for one in signatures.values()), *_called(file, count)}
    free = [number for number in range(count) if number not in named]
    texts = [_text(file.model.Subgraphs(number).Name()) for number in free]
    uses = Counter((*texts, *signatures, ""))
    pairs = zip(free, texts, strict=True)
    return {text if uses[text] == 1 else str(number): number for number, text in pairs}


def _called(file: File, count: int) -> Iterator[int]:
    """Yield the numbers of subgraphs that operators run."""
    for number in range(count):
        subgraph = file.model.Subgraphs(number)
        for index in range(file.count(subgraph.OperatorsLength(), 4)):
            operator = subgraph.Operators(index)
            table, fields = _CALLS.get(file.kind(operator.OpcodeIndex()), (None, ()))
            options = table and Node(operator, (), ()).options(table)
            yield from (getattr(options, field)() for field in fields if options)
