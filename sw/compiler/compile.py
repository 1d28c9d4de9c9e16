"""All passes, from a graph to a program."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from celosia.hw.arch.config import INSTRUCTION_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Instruction, Opcode, Unit, encode_program
from celosia.sw.compiler.access import Step
from celosia.sw.compiler.allocate import ALIGNMENT, Placement, allocate
from celosia.sw.compiler.bands import Band
from celosia.sw.compiler.choose import choose
from celosia.sw.compiler.emit import emit_main, emit_setup
from celosia.sw.compiler.layout import lay_out, least_steps
from celosia.sw.compiler.lower import lower
from celosia.sw.compiler.schedule import schedule
from celosia.sw.compiler.spec import CompileError, Network, Product
from celosia.sw.compiler.stream import stream
from celosia.sw.compiler.synchronise import synchronise
from celosia.sw.compiler.tile import Tiling, pack_parameters, pack_weights, tile
from celosia.sw.compiler.verify import verify
from celosia.sw.graph import Graph, Tensor
from celosia.sw.program import HostOperator, Layer, Port, Program, Section, Segment

__all__ = ["Compiled", "LayerSection", "bounds", "compile_graph", "compile_steps", "layer_sections"]

#: The core numbers the instructions of a program in 16 bits.
_MOST_INSTRUCTIONS = (1 << 16) - 1


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program, and what its passes found on the way.

    Parameters
    ----------
    program : Program
        The program.
    network : Network
        The layers.
    head : int
        Number of layers that run item by item.
    bands : frozenset of int
        Layers that multiply in bands.
    steps : tuple of Step
        The instructions of ``main`` without HALT and semaphores.
    """

    program: Program
    network: Network
    head: int
    bands: frozenset[int]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class LayerSection:
    """Part of the work of one layer, as a section of its own.

    Parameters
    ----------
    layer : int
        Number of the layer.
    section : Section
        The instructions, with semaphores of their own, and HALT.
    """

    layer: int
    section: Section


def compile_graph(graph: Graph, config: Config, batch: int = 1) -> Program:
    """Compile a graph for a core.

    Parameters
    ----------
    graph : Graph
        The model.
    config : Config
        The core.
    batch : int
        Items of one run of the program, at least 1.

    Raises
    ------
    CompileError
        If it cannot run on such a core, naming the layer and the reason.
    """
    return compile_steps(graph, config, batch).program


def compile_steps(graph: Graph, config: Config, batch: int = 1) -> Compiled:
    """Compile a graph as ``compile_graph`` does; return the steps of its program, too.

    Raises
    ------
    CompileError
        See ``compile_graph``.
    """
    if not 1 <= batch <= 1 << 20:
        raise CompileError(f"batch: wanted 1 to {1 << 20}, got {batch}")
    network = lower(graph)
    tiling, placement, constants = _placed(network, config, batch)
    sizes = [(len(weights), len(parameters)) for weights, parameters in constants]
    tables = b"".join(tiling.tables.contents)
    work = stream(schedule(network, tiling, placement, config), network, tiling, config)
    first = _limited(emit_setup(network, tiling, placement, config))
    setup = _section(first, config, placement.code)
    after = placement.code + -(-len(setup.code) // ALIGNMENT) * ALIGNMENT
    steps = _limited(emit_main(work, network, tiling, placement, config))
    main = _section(steps, config, after)
    program = Program(
        name=graph.name,
        config=config,
        batch=batch,
        setup=setup,
        main=main,
        segments=tuple(_segments(constants, tables, placement)),
        inputs=_ports(graph, network, network.inputs, placement),
        outputs=_ports(graph, network, network.outputs, placement),
        layers=_layers(network, tiling, placement, config, sizes),
        host=_host(network),
        memory_bytes=main.address + len(main.code),
    )
    verify(program)
    bands = frozenset(number for number, tiled in enumerate(tiling.layers) if tiled.band)
    return Compiled(program, network, placement.head, bands, steps)


def _placed(
    network: Network, config: Config, batch: int
) -> tuple[Tiling, Placement, list[tuple[bytes, bytes]]]:
    """Return the tiles of all layers, where everything lies, and weights and parameters by layer.

    Bands are for values that the unified buffer holds.
    """
    bands = choose(network, config)
    if bands:
        try:
            found = _place(network, bands, config, batch)
            if not found[1].strip_rows:
                return found
        except CompileError:
            pass
    return _place(network, {}, config, batch)


def _place(
    network: Network, bands: Mapping[int, Band], config: Config, batch: int
) -> tuple[Tiling, Placement, list[tuple[bytes, bytes]]]:
    layouts = lay_out(network, bands, config)
    tiling = tile(network, layouts, bands, config)
    constants = [
        (
            pack_weights(layer, tiled, layouts[layer.source], config),
            pack_parameters(layer, tiled, config),
        )
        for layer, tiled in zip(network.layers, tiling.layers, strict=True)
    ]
    sizes = [(len(weights), len(parameters)) for weights, parameters in constants]
    tables = sum(map(len, tiling.tables.contents))
    return tiling, allocate(network, layouts, config, batch, sizes, tables), constants


def bounds(compiled: Compiled) -> list[int]:
    """Return the cycles that each layer takes the array at least, for one batch.

    Of a layer in bands what its passes take. Else the sum over reduction steps of R taps and output tiles of C channels of what a pass of the
    array takes: a cycle for each pixel, but not less than the R / W in which its tile loads. Items
    of the batch share a tile in the layers behind the head. 0 for a layer without weights.
    """
    config, batch = compiled.program.config, compiled.program.batch
    load = config.rows // config.weight_rows
    by_layer: dict[int, list[Step]] = defaultdict(list)
    for step in compiled.steps:
        if step.instruction.unit is Unit.MATRIX:
            by_layer[step.layer].append(step)
    cycles = []
    for number, layer in enumerate(compiled.network.layers):
        if not isinstance(layer, Product):
            cycles.append(0)
            continue
        if number in compiled.bands:
            cycles.append(sum(_passes(s.instruction, config) for s in by_layer[number]))
            continue
        # The model's own pixels: some that no window reads are not computed.
        pixels = layer.macs // layer.weights.size
        passes = least_steps(layer, config) * -(-layer.channels // config.columns)
        alone = number < compiled.head
        each = batch * max(pixels, load) if alone else max(batch * pixels, load)
        cycles.append(passes * each)
    return cycles


def _passes(i: Instruction, config: Config) -> int:
    """Return the cycles that the passes of a MATMUL take at least."""
    pixels = i.x_count * i.y_count * i.z_count
    return -(-i.taps // config.rows) * max(pixels, config.rows // config.weight_rows)


def layer_sections(compiled: Compiled) -> list[LayerSection]:
    """Return the main section cut where the layer changes, so that each part can run on its own.

    Parts lie behind the program in external memory, one after the other. Run in order after
    ``setup`` they do what ``main`` does. The array, the vector unit and the stores say whose part
    it is; loads stay where they are, those for later layers too, unless they come right before the
    work of their layer.
    """
    address = compiled.program.memory_bytes
    sections = []
    for layer, steps in _cut(compiled.steps):
        sections.append(LayerSection(layer, _section(steps, compiled.program.config, address)))
        address += len(sections[-1].section.code)
    return sections


def _cut(steps: Sequence[Step]) -> Iterator[tuple[int, list[Step]]]:
    """Yield (layer, its steps) for each part of a program."""
    part: list[Step] = []
    layer = None
    for step in steps:
        if step.instruction.unit is not Unit.LOAD:
            if layer not in (None, step.layer):
                place = _own_loads(part, step.layer)
                yield layer, part[:place]
                part = part[place:]
            layer = step.layer
        part.append(step)
    if layer is not None:
        yield layer, part


def _own_loads(part: Sequence[Step], layer: int) -> int:
    """Return where the loads begin, at the end of a part, that the part of ``layer`` starts with."""
    first = len(part)
    while first and part[first - 1].instruction.unit is Unit.LOAD:
        first -= 1
    own = (n for n in range(first, len(part)) if part[n].layer == layer)
    return next(own, len(part))


def _limited(steps: Iterable[Step]) -> tuple[Step, ...]:
    emitted = tuple(islice(steps, _MOST_INSTRUCTIONS))
    if len(emitted) == _MOST_INSTRUCTIONS:
        raise CompileError(
            f"network: wanted at most {_MOST_INSTRUCTIONS} instructions, got more: "
            "a smaller batch takes fewer"
        )
    return emitted


def _section(steps: Sequence[Step], config: Config, address: int) -> Section:
    instructions = [*synchronise(steps, config), Instruction(Opcode.HALT)]
    layers = (*(step.layer for step in steps), -1)
    code = encode_program(instructions)
    assert len(code) == INSTRUCTION_BYTES * len(layers)
    return Section(address, code, layers)


def _segments(
    constants: Iterable[tuple[bytes, bytes]], tables: bytes, placement: Placement
) -> Iterator[Segment]:
    for number, (weights, parameters) in enumerate(constants):
        yield Segment(f"weights {number}", placement.weights[number], weights)
        yield Segment(f"parameters {number}", placement.parameters[number], parameters)
    if tables:
        yield Segment("tables", placement.tables, tables)


def _ports(
    graph: Graph, network: Network, numbers: dict[int, int], placement: Placement
) -> tuple[Port, ...]:
    ports = []
    for number, value in numbers.items():
        tensor = graph.tensors[number]
        assert tensor.quantization is not None
        ports.append(
            Port(
                name=tensor.name,
                shape=_item_shape(tensor, network.items),
                items=network.items,
                scale=tensor.quantization.scale,
                zero_point=tensor.quantization.zero_point,
                address=placement.external[value],
            )
        )
    return tuple(ports)


def _item_shape(tensor: Tensor, items: int) -> tuple[int, ...]:
    """Return the shape of one item: without the first extent, where that counts items."""
    if len(tensor.shape) > 1 and tensor.shape[0] == items:
        return tensor.shape[1:]
    return tensor.shape


def _layers(
    network: Network,
    tiling: Tiling,
    placement: Placement,
    config: Config,
    sizes: list[tuple[int, int]],
) -> tuple[Layer, ...]:
    layers = []
    for number, (layer, tiled) in enumerate(zip(network.layers, tiling.layers, strict=True)):
        ends = (network.values[layer.source], network.values[layer.result])
        notes = []
        least = least_steps(layer, config) if isinstance(layer, Product) else 0
        if tiled.band:
            each = f"{tiled.band.count} results of {tiled.band.channels}"
            notes.append(f"in bands: {each} channel{'s' * (tiled.band.channels > 1)} a vector")
        elif isinstance(layer, Product) and tiled.steps > least:
            pixels = max(layer.pixels, config.rows // config.weight_rows)
            more = (tiled.steps - least) * tiled.tiles * pixels
            notes.append(f"{tiled.steps} reduction steps instead of {least}, {more:,} cycles more")
        if number in placement.strip_rows:
            rows = placement.strip_rows[number]
            unit = "row" if rows == 1 else "rows"
            notes.append(f"through external memory, {rows} {unit} of results at a time")
        layers.append(
            Layer(
                name=layer.name,
                kind=layer.kind,
                place=layer.place,
                runs_on="core",
                macs=layer.macs,
                weight_bytes=sizes[number][0],
                parameter_bytes=sizes[number][1] + TABLE_BYTES * (number in tiling.tables.of),
                activation_bytes=sum(value.bytes_per_item for value in ends),
                resident=not tiled.streams,
                note="; ".join(notes),
            )
        )
    return tuple(layers)


def _host(network: Network) -> tuple[HostOperator, ...]:
    return tuple(
        HostOperator(step.name, step.kind, step.place, step.output, step.attributes)
        for step in network.host
    )
