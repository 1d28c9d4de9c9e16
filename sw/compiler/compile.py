"""All passes, from a graph to a program."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.hw.arch.registers import MOST_INSTRUCTIONS
from celosia.sw.compiler import policy
from celosia.sw.compiler.compiled import (
    Compiled,
    CompiledPart,
    least_instructions,
    sections,
)
from celosia.sw.compiler.emit.access import Step
from celosia.sw.compiler.emit.program import emit_main, emit_setup
from celosia.sw.compiler.layout.external import ALIGNMENT
from celosia.sw.compiler.layout.pack import packed
from celosia.sw.compiler.layout.placement import Arrangement, Placement
from celosia.sw.compiler.layout.tile import all_resident
from celosia.sw.compiler.legalise import Plan, fits, legalise
from celosia.sw.compiler.listing import layers_of
from celosia.sw.compiler.passes import simplified
from celosia.sw.compiler.provenance import follow
from celosia.sw.compiler.schedule.actions import FillMargins
from celosia.sw.compiler.schedule.scheduler import schedule
from celosia.sw.compiler.schedule.stream import stream
from celosia.sw.compiler.verify import verify
from celosia.sw.ir.graph import Graph, Tensor
from celosia.sw.ir.parts import (
    MOST_BATCH,
    HostOperator,
    Layer,
    Part,
    Port,
    Section,
    Segment,
    Variable,
)
from celosia.sw.ir.program import Program
from celosia.sw.layers.errors import CompileError, LengthError
from celosia.sw.layers.network import Network
from celosia.sw.operators.host import unit_shape


def compile_graph(graph: Graph, config: Config, batch: int = 1) -> Program:
    """Compile a graph for a core.

    ``batch``: samples of one run of the program, at least 1. Raises CompileError if it cannot run
    on such a core, naming the layer and the reason.
    """
    return compile_steps(graph, config, batch).program


def runs_alone(graph: Graph, config: Config) -> bool:
    """Return whether a core runs all operations of a graph with states."""
    return fits(_with_states(simplified(graph)), config)


def compile_up_to(graph: Graph, config: Config, batch: int) -> Program:
    """Compile a graph as ``compile_graph`` does, for a smaller batch if that is a long program.

    The batch is ``batch``, or about the largest for which each part of the program is one section.
    """
    while batch > 1:
        try:
            return _steps(graph, config, batch, MOST_INSTRUCTIONS - 1).program
        except LengthError as error:
            batch = min(batch - 1, batch * error.limit // error.count)
    return compile_graph(graph, config)


def _advised(error: LengthError, graph: Graph, config: Config, batch: int) -> LengthError:
    """Return an error with the remedy: a batch that fits, else another core."""
    error.hint = "a core with a larger array takes fewer"
    with suppress(LengthError):
        parts = _steps(graph, config, 1, error.limit).parts
        spare = error.limit // policy.SPARE_INSTRUCTIONS
        fits = (error.limit - spare) // max(len(part.steps) for part in parts)
        error.hint = f"a batch of {max(1, min(fits, batch - 1))} takes fewer"
    return error


def compile_steps(graph: Graph, config: Config, batch: int = 1) -> Compiled:
    """Compile a graph as ``compile_graph`` does; return the steps of its program, too.

    Raises CompileError, see ``compile_graph``.
    """
    try:
        return _steps(graph, config, batch, policy.PART_INSTRUCTIONS)
    except LengthError as error:
        raise _advised(error, graph, config, batch) from None


def _steps(graph: Graph, config: Config, batch: int, most: int) -> Compiled:
    """Compile a graph to a program whose parts have at most ``most`` instructions each."""
    if not (isinstance(batch, Integral) and 1 <= batch <= MOST_BATCH):
        raise CompileError(f"wanted 1 to {MOST_BATCH}, got {batch!r}", layer="batch")
    model = simplified(graph)
    # Samples are invocations, one after the other.
    batch = 1 if model.states else batch
    graph = _with_states(model)
    plan = legalise(graph, config, batch)
    compiler = _Compiler(config, batch, most)
    placed = [step for step in plan.steps if not isinstance(step, HostOperator)]
    shared = all_resident([arrangement.tiling for _, arrangement in placed], config)
    if shared:
        placed = [(g, a._replace(tiling=t)) for (g, a), t in zip(placed, shared, strict=True)]
    parts = (compiler.part(*each, plan.items, alone=not shared) for each in placed)
    steps = tuple(step if isinstance(step, HostOperator) else next(parts) for step in plan.steps)
    constants = compiler.constants() if shared else ()
    inputs, outputs = (
        _ends(graph, plan, numbers, steps, names)
        for numbers, names in zip((graph.inputs, graph.outputs), model.names, strict=True)
    )
    first = len(model.inputs)
    kept = zip(graph.states, inputs[first:], strict=True)
    program = Program(
        name=graph.name,
        config=config,
        batch=batch,
        steps=steps,
        segments=tuple(compiler.segments),
        inputs=inputs[:first],
        outputs=outputs[: len(model.outputs)],
        layers=tuple(compiler.layers),
        # A program of the host alone needs no memory; devices have at least this.
        memory_bytes=compiler.address or ALIGNMENT,
        constants=constants,
        variables=tuple(Variable(p, s.successor, s.initial.tobytes()) for s, p in kept),
    )
    verify(program, compiler.code)
    return Compiled(program, tuple(compiler.parts))


def _with_states(graph: Graph) -> Graph:
    """Return a graph with its states among inputs and outputs, after the model's own."""
    inputs = (*graph.inputs, *(state.tensor for state in graph.states))
    successors = dict.fromkeys(state.successor for state in graph.states)
    outputs = (*graph.outputs, *(n for n in successors if n not in (*graph.outputs, *inputs)))
    return replace(graph, inputs=inputs, outputs=outputs)


class _Compiler:
    """Compiles the parts of a program one after the other, each after those before it in memory."""

    def __init__(self, config: Config, batch: int, most: int) -> None:
        self.config = config
        self.batch = batch
        self.most = most
        self.address = 0
        self.layers: list[Layer] = []
        self.segments: list[Segment] = []
        self.parts: list[CompiledPart] = []
        #: Loads of constants resident for all parts, and instructions by the address of their code.
        self.loads: list[Step] = []
        self.code: dict[int, list[Instruction]] = {}

    def part(self, graph: Graph, arrangement: Arrangement, items: int, *, alone: bool) -> Part:
        """Compile a part of a model whose batch is ``items``.

        Unless it is ``alone``, its constants share the core with others: ``constants`` loads them.
        """
        network, tiling, placement, config = arrangement
        first, repeats = len(self.layers), network.items // items
        constants = packed(network, tiling, placement.layouts, config)
        # Before the slow passes.
        self._check(least_instructions(network, tiling, placement.per_image, self.batch, config))
        placement = placement.moved(self._free())
        arrangement = arrangement._replace(placement=placement)
        actions = schedule(arrangement)
        self._check(sum(not isinstance(action, FillMargins) for action in actions))
        work = stream(actions, arrangement)
        loads = tuple(emit_setup(arrangement))
        if not alone:
            stay = [step for step in loads if step.instruction.opcode is not Opcode.FILL]
            self.loads += (step._replace(layer=step.layer + first) for step in stay)
            loads = tuple(step for step in loads if step.instruction.opcode is Opcode.FILL)
        setups = self._sections(loads, placement.code, first)
        steps = tuple(emit_main(work, arrangement))
        self._check(len(steps))
        mains = self._sections(steps, self._free(), first)
        follow(loads, steps, network, config)
        sizes = [(len(weights), len(parameters)) for weights, parameters in constants]
        tables = b"".join(tiling.tables.contents + tiling.exponentials.contents)
        self.segments += _segments(constants, tables, placement, first)
        self.segments += _contents(network, placement, len(self.segments))
        self.layers += layers_of(arrangement, sizes, repeats)
        bands = frozenset(number for number, tiled in enumerate(tiling.layers) if tiled.band)
        self.parts.append(CompiledPart(network, placement.per_image, bands, steps, first))
        return Part(
            setups=setups,
            mains=mains,
            inputs=_ports(graph, network, network.inputs, placement),
            outputs=_ports(graph, network, network.outputs, placement),
            items=repeats,
        )

    def constants(self) -> tuple[Section, ...]:
        """Return the sections that load the constants of all parts."""
        return self._sections(self.loads, self._free(), 0)

    def _check(self, count: int) -> None:
        """Refuse a part of ``count`` instructions or more; raises LengthError."""
        if count > self.most:
            raise LengthError(count, self.most)

    def _free(self) -> int:
        """Return the first free address for the next part or section."""
        return -(-self.address // ALIGNMENT) * ALIGNMENT

    def _sections(self, steps: Sequence[Step], address: int, first: int) -> tuple[Section, ...]:
        """Return steps as sections, and reserve their memory."""
        result = []
        for section, made in sections(steps, self.config, address, first):
            self.code[section.address] = made
            self.address = section.end
            result.append(section)
        return tuple(result)


def _segments(
    constants: Iterable[tuple[bytes, bytes]], tables: bytes, placement: Placement, first: int
) -> Iterator[Segment]:
    for number, (weights, parameters) in enumerate(constants):
        yield Segment(f"weights {first + number}", placement.weights[number], weights)
        yield Segment(f"parameters {first + number}", placement.parameters[number], parameters)
    if tables:
        yield Segment("tables", placement.tables, tables)


def _contents(network: Network, placement: Placement, first: int) -> Iterator[Segment]:
    """Yield the constants that layers read as values; numbers of names begin with ``first``."""
    constants = ((n, v.contents) for n, v in enumerate(network.values) if v.contents is not None)
    for place, (number, contents) in enumerate(constants):
        yield Segment(f"values {first + place}", placement.external[number], contents.tobytes())


def _ports(
    graph: Graph, network: Network, numbers: dict[int, int], placement: Placement
) -> tuple[Port, ...]:
    return tuple(
        _port(graph, number, network.items, placement.external[value])
        for number, value in numbers.items()
    )


def _port(graph: Graph, number: int, items: int, address: int) -> Port:
    tensor = graph.tensors[number]
    quantization = tensor.quantization
    return Port(
        name=tensor.name,
        shape=_item_shape(tensor, items),
        items=items,
        scale=quantization.scale if quantization else 1.0,
        zero_point=quantization.zero_point if quantization else 0,
        address=address,
        tensor=number,
        dtype=tensor.dtype.name,
    )


def _ends(
    graph: Graph,
    plan: Plan,
    numbers: Sequence[int],
    steps: Sequence[Part | HostOperator],
    names: Sequence[str],
) -> tuple[Port, ...]:
    """Return the model's inputs or outputs, with the addresses of those that the core has.

    ``names``: of the first ones; the others have those of their tensors.
    """
    parts = [step for step in steps if isinstance(step, Part)]
    core = {port.tensor: port for part in parts for port in (*part.inputs, *part.outputs)}
    ports = []
    for index, number in enumerate(numbers):
        address = core[number].address if number in core else -1
        port = _port(graph, number, plan.items, address)
        if index < len(names) and names[index] != port.name:
            port = replace(port, name=names[index], tensor_name=port.name)
        if number in graph.unsigned:
            port = replace(port, dtype="uint8", zero_point=port.zero_point + 128)
        ports.append(port)
    return tuple(ports)


def _item_shape(tensor: Tensor, items: int) -> tuple[int, ...]:
    """Return the shape of one sample: without the first extent if that counts samples."""
    shape = tensor.shape
    if shape == (items,):
        return ()
    if len(shape) < 2 or shape[0] % items:
        return shape if items == 1 else (tensor.elements // items,)
    first, *rest = unit_shape(shape, items)
    return tuple(rest) if shape[0] == items else (first, *rest)
