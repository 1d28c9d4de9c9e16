"""Legalisation: which operators the core runs, which the host, and why.

The operators that the core runs between two host operators are a part: a separate graph, with
inputs and outputs in external memory. There are as few parts as the order allows.

The record of an operator decides by types, batch and options of the core. Then the lowering of a
part, and after it the layout, give the layers, or an operator that the core does not run after all.
The passes after this one leave nothing to the host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import PRESETS
from celosia.sw.compiler.arrange import arrange
from celosia.sw.compiler.layout.placement import Arrangement
from celosia.sw.compiler.layout.scratch import with_shared_tiles
from celosia.sw.compiler.lower import RELOADS, lower, with_reloads
from celosia.sw.ir.graph import Graph, Operation
from celosia.sw.ir.parts import HostOperator
from celosia.sw.layers.errors import CompileError, UndefinedError
from celosia.sw.layers.network import Network
from celosia.sw.layers.quantize import activation_range
from celosia.sw.layers.shapes import DENSE, RESHAPES, STEPS, items_of
from celosia.sw.operators.host import host_operator
from celosia.sw.operators.registry import OPERATORS, runs_on_host

#: Attributes by which an operator can mix samples, each with the condition.
_MIXES = {
    "axis": lambda axis: axis == 0,
    "axes": lambda axes: 0 in axes,
    "permutation": lambda order: order[0] != 0,
    "before": lambda margins: margins[0] != 0,
    "after": lambda margins: margins[0] != 0,
    "begin": lambda begin: begin[0] != 0,
    "dropped": lambda axes: 0 in axes,
    "added": lambda axes: 0 in axes,
}


@dataclass(frozen=True, eq=False)
class Plan:
    """Operators of the core and of the host, in order."""

    items: int  #: The model's own batch, 1 if samples cannot be distinguished.
    #: In order: the graph and the layers of a part for the core, an operator for the host.
    steps: tuple[tuple[Graph, Arrangement] | HostOperator, ...]


def legalise(graph: Graph, config: Config, batch: int = 1) -> Plan:
    """Return the plan of a graph: operators run on the core if they can, else on the host.

    ``batch``: samples of one run of the program. Raises CompileError if neither can run an
    operator; the message names it and the core's reason.
    """
    notes = _notes(graph, config)
    while True:
        levels = _levels(graph, notes)
        if notes and (idle := _idle(graph, levels)):
            notes |= dict.fromkeys(idle, "moves no bytes")
            continue
        plan = _plan(graph, levels, notes, config, batch)
        if isinstance(plan, Plan):
            return plan
        kinds = [o.kind for o in graph.operations if o.place == plan.place]
        if plan.place is None or plan.place in notes or not all(map(runs_on_host, kinds)):
            raise plan
        notes[plan.place] = plan.reason


def fits(graph: Graph, config: Config) -> bool:
    """Return whether a core runs all operators of a graph."""
    if _notes(graph, config):
        return False
    return isinstance(_plan(graph, _levels(graph, {}), {}, config, 1), Plan)


def _notes(graph: Graph, config: Config) -> dict[int, str]:
    """Return the operators that the records leave to the host, by number, and reasons."""
    notes = {}
    alone = items_of(graph) == 1
    for operation in graph.operations:
        record, label = OPERATORS.get(operation.kind), graph.label(operation)
        if record is None:
            reason = "operator is not supported"
            raise CompileError(reason, layer=label, place=operation.place)
        require_defined(graph, operation)
        option = record.option(graph, operation) if record.option else ""
        if record.lower is None:
            notes[operation.place] = ""
        elif types := _types(graph, operation) - {"int8"}:
            notes[operation.place] = f"{' and '.join(sorted(types))} input or output"
        elif option and not getattr(config, option):
            reason = f"the core lacks the option `{option}`; preset {_presets(option)} has it"
            notes[operation.place] = reason
        elif record.kernel and _mixes(graph, operation, alone=alone):
            notes[operation.place] = "mixes items"
        elif config.parameter_channels < config.columns and not _moves_nothing(graph, operation):
            wanted = f"parameters of at least {config.columns} channels"
            got = f"parameter_channels = {config.parameter_channels}"
            notes[operation.place] = f"wanted {wanted}, got {got}"
    return notes


def _presets(option: str) -> str:
    """Return the names of the presets that have an option."""
    names = [f"`{name}`" for name, config in PRESETS.items() if getattr(config, option)]
    return " or ".join(names)


def _types(graph: Graph, operation: Operation) -> set[str]:
    """Return the types of the operands and results of an operator."""
    ends = [graph.tensors[number] for number in (*operation.inputs[:1], *operation.outputs)]
    return {tensor.dtype.name for tensor in ends if tensor.data is None}


def _levels(graph: Graph, notes: Mapping[int, str]) -> dict[int, int]:
    """Return by position the part of each operator, or the part before it on the host."""
    made: dict[int, tuple[int, bool]] = {}
    levels = {}
    for operation in graph.operations:
        host = operation.place in notes
        before = [made[number] for number in operation.inputs if number in made]
        after = max([-1 if host else 0, *(n + (by_host and not host) for n, by_host in before)])
        levels[operation.place] = after
        made |= dict.fromkeys(operation.outputs, (after, host))
    return {place: level if place not in notes else level + 0.5 for place, level in levels.items()}


def _idle(graph: Graph, levels: Mapping[int, float]) -> list[int]:
    """Return the operators of parts that move no bytes."""
    parts: dict[float, list[Operation]] = {}
    for operation in graph.operations:
        parts.setdefault(levels[operation.place], []).append(operation)
    return [
        operation.place
        for level, operations in parts.items()
        if level == int(level) and all(_moves_nothing(graph, o) for o in operations)
        for operation in operations
    ]


def _moves_nothing(graph: Graph, operation: Operation) -> bool:
    """Return whether an operator's result is its input, byte by byte."""
    if operation.kind != "QUANTIZE":
        return operation.kind in RESHAPES
    source, output = (graph.tensors[n] for n in (operation.inputs[0], operation.outputs[0]))
    same = source.quantization is not None and source.quantization.equals(output.quantization)
    return same and source.dtype == output.dtype


def _plan(
    graph: Graph, levels: Mapping[int, float], notes: Mapping[int, str], config: Config, batch: int
) -> Plan | CompileError:
    """Return the steps of a graph, or the error of an operator that the core cannot run."""
    items = items_of(graph, notes)
    if graph.states or not all(
        _keeps(graph, o, items) for o in graph.operations if o.place in notes
    ):
        items = 1
    steps: list[tuple[Graph, Network] | HostOperator] = []
    for level in sorted(set(levels.values())):
        operations = [o for o in graph.operations if levels[o.place] == level]
        if operations[0].place in notes:
            steps += [host_operator(graph.tensors, o, items, notes[o.place]) for o in operations]
            continue
        part = _part(graph, operations)
        alone = 1 if graph.states else None
        network = _lowered(part, items if notes and items > 1 else alone)
        if isinstance(network, CompileError):
            return network
        steps.append((part, network))
    placed: list[tuple[Graph, Arrangement] | HostOperator] = []
    for step in steps:
        if isinstance(step, HostOperator):
            placed.append(step)
            continue
        network = step[1]
        if graph.states and batch == 1:
            network = with_shared_tiles(network, config)
        arrangement = arrange(network, config, batch)
        for way in RELOADS if graph.states else ():
            if isinstance(arrangement, CompileError):
                arrangement = arrange(with_reloads(network, *way), config, batch)
        if isinstance(arrangement, CompileError):
            return arrangement
        placed.append((step[0], arrangement))
    return Plan(items, tuple(placed))


def _lowered(part: Graph, items: int | None) -> Network | CompileError:
    """Return the layers of a part, or the reason of the record of an operator against the core."""
    try:
        return lower(part, items)
    except UndefinedError:
        raise
    except CompileError as error:
        return error


def _keeps(graph: Graph, operation: Operation, items: int) -> bool:
    """Return whether a host operator keeps samples apart."""
    if items == 1:
        return True
    rank, record = len(graph.tensors[operation.outputs[0]].shape), OPERATORS[operation.kind]
    operands = _operands(operation)
    others = [graph.tensors[number] for number in operands[1:]]
    if record.takes_batch or (record.weighted and any(tensor.data is None for tensor in others)):
        return False
    for number in (*operands, *operation.outputs):
        tensor = graph.tensors[number]
        first = tensor.shape[0] if tensor.shape else 1
        short = len(tensor.shape) < rank
        if tensor.data is not None:
            mixes = not short and first != 1 and not record.weighted
        else:
            mixes = first != items or (short and record.broadcasts)
        if mixes:
            return False
    return not _says_so(operation)


def _says_so(operation: Operation) -> bool:
    """Return whether an operator mixes samples by its attributes."""
    attributes = operation.attributes.items()
    return any(_MIXES[name](value) for name, value in attributes if name in _MIXES and value != ())


def _mixes(graph: Graph, operation: Operation, *, alone: bool) -> bool:
    """Return whether an operator makes another number of samples than it reads.

    ``alone``: there is one sample, so that only its attributes can show that.
    """
    if operation.kind in (*RESHAPES, *DENSE, *STEPS):
        return False
    ends = [graph.tensors[number] for number in (*_operands(operation), *operation.outputs)]
    firsts = {tensor.shape[:1] for tensor in ends if tensor.data is None}
    return (len(firsts) > 1 and not alone) or _says_so(operation)


def _part(graph: Graph, operations: Sequence[Operation]) -> Graph:
    """Return operators as a separate graph."""
    made = [number for operation in operations for number in operation.outputs]
    places = {operation.place for operation in operations}
    elsewhere = {n for o in graph.operations if o.place not in places for n in o.inputs}
    read = dict.fromkeys(n for o in operations for n in o.inputs if n != -1)
    if len(operations) == len(graph.operations):
        # In the model's own order, without tensors of the host alone.
        inputs = tuple(n for n in dict.fromkeys(graph.inputs) if n in read)
        outputs = tuple(n for n in dict.fromkeys(graph.outputs) if n in made)
        same = (inputs, outputs) == (graph.inputs, graph.outputs)
        return graph if same else replace(graph, inputs=inputs, outputs=outputs)
    return replace(
        graph,
        operations=tuple(operations),
        inputs=tuple(n for n in read if n not in made and graph.tensors[n].data is None),
        outputs=tuple(n for n in made if n in elsewhere or n in graph.outputs),
        states=(),
    )


def _operands(operation: Operation) -> list[int]:
    """Return the tensors that the host reads."""
    return [number for number in OPERATORS[operation.kind].inputs(operation) if number != -1]


def require_defined(graph: Graph, operation: Operation) -> None:
    """Refuse an operator for which the reference kernel has no defined results.

    Raises UndefinedError if a factor is past 2^30, or results or a bound of its activation are past
    32 bits.
    """
    factors = OPERATORS[operation.kind].factors
    try:
        greatest = max(factors(graph, operation) if factors else [], default=0.0)
        if greatest >= 1 << 30:
            raise UndefinedError(f"wanted factors below 2^30, got {greatest:.9g}")
        output = graph.tensors[operation.outputs[0]].quantization
        if output is not None and "activation" in operation.attributes:
            activation_range(operation.attributes["activation"], output)
    except UndefinedError as error:
        raise error.at(graph.label(operation), operation.place) from None
