"""All passes, from a graph to a program."""

from collections.abc import Iterable
from itertools import islice

from celosia.hw.arch.config import INSTRUCTION_BYTES, Config
from celosia.hw.arch.isa import Instruction, Opcode, encode_program
from celosia.sw.compiler.access import Step
from celosia.sw.compiler.allocate import ALIGNMENT, Placement, allocate
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

__all__ = ["compile_graph"]

#: The core numbers the instructions of a program in 16 bits.
_MOST_INSTRUCTIONS = (1 << 16) - 1


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
    if not 1 <= batch <= 1 << 20:
        raise CompileError(f"batch: wanted 1 to {1 << 20}, got {batch}")
    network = lower(graph)
    layouts = lay_out(network, config)
    tiling = tile(network, layouts, config)
    constants = [
        (pack_weights(layer, tiled.segments, config), pack_parameters(layer, config))
        for layer, tiled in zip(network.layers, tiling.layers, strict=True)
    ]
    sizes = [(len(weights), len(parameters)) for weights, parameters in constants]
    placement = allocate(network, layouts, config, batch, sizes)
    work = stream(schedule(network, tiling, placement, config), network, tiling, config)
    setup = _section(emit_setup(network, tiling, placement, config), config, placement.code)
    after = placement.code + -(-len(setup.code) // ALIGNMENT) * ALIGNMENT
    main = _section(emit_main(work, network, tiling, placement, config), config, after)
    segments = []
    for number, (weights, parameters) in enumerate(constants):
        segments.append(Segment(f"weights {number}", placement.weights[number], weights))
        segments.append(Segment(f"parameters {number}", placement.parameters[number], parameters))
    program = Program(
        name=graph.name,
        config=config,
        batch=batch,
        setup=setup,
        main=main,
        segments=tuple(segments),
        inputs=_ports(graph, network, network.inputs, placement),
        outputs=_ports(graph, network, network.outputs, placement),
        layers=_layers(network, tiling, config, sizes),
        host=_host(network),
        memory_bytes=main.address + len(main.code),
    )
    verify(program)
    return program


def _section(steps: Iterable[Step], config: Config, address: int) -> Section:
    emitted = list(islice(steps, _MOST_INSTRUCTIONS))
    if len(emitted) == _MOST_INSTRUCTIONS:
        raise CompileError(
            f"network: wanted at most {_MOST_INSTRUCTIONS} instructions, got more: "
            "a smaller batch takes fewer"
        )
    instructions = [*synchronise(emitted, config), Instruction(Opcode.HALT)]
    layers = (*(step.layer for step in emitted), -1)
    code = encode_program(instructions)
    assert len(code) == INSTRUCTION_BYTES * len(layers)
    return Section(address, code, layers)


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
    network: Network, tiling: Tiling, config: Config, sizes: list[tuple[int, int]]
) -> tuple[Layer, ...]:
    layers = []
    for number, (layer, tiled) in enumerate(zip(network.layers, tiling.layers, strict=True)):
        ends = (network.values[layer.source], network.values[layer.result])
        note = ""
        if isinstance(layer, Product):
            least = least_steps(layer, config)
            if tiled.steps > least:
                more = (tiled.steps - least) * tiled.tiles * layer.pixels
                note = f"{tiled.steps} steps instead of {least}: {more:,} cycles more"
        layers.append(
            Layer(
                name=layer.name,
                kind=layer.kind,
                place=layer.place,
                runs_on="core",
                macs=layer.macs,
                weight_bytes=sizes[number][0],
                parameter_bytes=sizes[number][1],
                activation_bytes=sum(value.bytes_per_item for value in ends),
                resident=tiled.resident == tiled.weight_tiles,
                note=note,
            )
        )
    return tuple(layers)


def _host(network: Network) -> tuple[HostOperator, ...]:
    return tuple(
        HostOperator(step.name, step.kind, step.place, step.output, step.attributes)
        for step in network.host
    )
