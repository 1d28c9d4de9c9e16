"""Programs that the compiler makes of graphs with a product of two computed matrices."""

from networks import Graph, serialize

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.lower import lower
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator, Part
from celosia.sw.layers.network import Network
from celosia.sw.layers.spec import DynamicProduct


def lowered(graph: Graph) -> Network:
    return lower(load(serialize(graph)))


def dynamic(network: Network) -> DynamicProduct:
    (layer,) = [layer for layer in network.layers if isinstance(layer, DynamicProduct)]
    return layer


def part_of(graph: Graph, config: Config) -> Part:
    """Return the one part of a compiled graph."""
    (part,) = compile_steps(load(serialize(graph)), config).program.parts
    return part


def code(graph: Graph, config: Config, opcode: Opcode) -> list[Instruction]:
    """Return the instructions of one kind of a compiled graph."""
    return [i for i in part_of(graph, config).mains[0].instructions if i.opcode is opcode]


def on_host(graph: Graph, config: Config) -> list[HostOperator]:
    """Return the operators of a compiled graph that are left to the host."""
    program = compile_steps(load(serialize(graph)), config).program
    return [step for step in program.steps if isinstance(step, HostOperator)]
