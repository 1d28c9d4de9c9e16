"""Cycles that single instructions take on the units of a core."""

from collections.abc import Sequence
from typing import NamedTuple

from celosia.hw.arch.commands import Encoder
from celosia.hw.arch.config import (
    ADD_CYCLES,
    PARAMETER_BYTES,
    SOFTMAX_ROWS,
    TABLE_BYTES,
    Config,
)
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Space
from celosia.sim.check import footprint


class Costs(NamedTuple):
    """Constants of the estimate, in cycles unless noted otherwise.

    All but the first two are lengths and depths of the RTL's pipelines.
    """

    #: From an address on the bus to the first beat read, or from the last beat to the response.
    memory: int = 32
    #: Beats that external memory moves per cycle, reads and writes together, above 0 up to 2.
    bandwidth: float = 1.0
    #: From a beat of the program on the bus until its first word is checked.
    fetch: int = 6
    #: Words, not cycles, between a word that leaves the prefetcher and the one that is checked.
    passing: int = 4
    #: From NOP, FENCE or HALT to the first grant of its semaphores.
    hold: int = 2
    #: From the post of NOP, FENCE or HALT until it has left the sequencer.
    settle: int = 3
    #: From the dispatcher through an empty queue to the first grant.
    queue: int = 4
    #: From the last effect of an instruction to the semaphores.
    post: int = 3
    #: From the last effect of an instruction to the end of a fence.
    idle: int = 3
    #: From a load or store that its unit takes to its first burst.
    request: int = 2
    #: From the last beat of a load on the bus to its last effect.
    arrival: int = 6
    #: From a burst of the store unit to its first beat on the bus.
    gather: int = 11
    #: Beats, not cycles, that the store unit reads before the bus has taken them.
    read_ahead: int = 16
    #: Bursts, not cycles, of the store unit that may wait for their responses.
    responses: int = 64
    #: From the response to the last burst of a store to its end.
    written: int = 2
    #: From a MATMUL that its unit takes to its start, besides log2 of rows.
    prepare: int = 3
    #: The same with serial skips, which its first vector waits for.
    begin: int = 2
    #: From a VECTOR or FILL that its unit takes to its start, besides log2 of lanes.
    prepare_vector: int = 2
    #: From the last vector that enters the array to the last sum, besides rows and columns.
    matrix: int = 8
    #: From the vectors of one pass to those that add to the same sums, unless it is forwarded.
    add: int = ADD_CYCLES
    #: From the last vector of MOVE_WEIGHTS to a start of a tile, less the vector's row in its tile.
    landing: int = 7
    #: From the last column of a tile, counted from its start, back to a vector of MOVE_WEIGHTS.
    overtaken: int = 6
    #: From a vector of MOVE_WEIGHTS to the beat of LOAD_WEIGHTS on the bus that its row delays.
    displaced: int = 4
    #: From the start of VECTOR or FILL to its first request, besides one.
    first_request: int = 2
    #: From a request of FILL to its element.
    nothing: int = 2
    #: From a request of sums to their element.
    sums: int = 5
    #: From a request of bytes to their element.
    bytes: int = 8
    #: From an element to the last effect of its first group of channels in the unified buffer.
    to_bytes: int = 19
    #: The same in the accumulators.
    to_sums: int = 11
    #: Added to it in the modes MULTIPLY and SQUARED_DIFFERENCE.
    multiply: int = 2
    #: Added to both for a sequential requantiser.
    sequential: int = 24
    #: Added to both on a core with SOFTMAX.
    softmax: int = 3
    #: From an element to the greatest of its row, besides log2 of lanes.
    maximum: int = 4
    #: From an element to the sum of its row, normalised, besides log2 of lanes.
    sum: int = 9
    #: From the last product for a row to the first one of the next pass over the rows.
    product: int = 11
    #: From a write of the vector unit to its effect.
    visible: int = 4


#: Constants of the RTL with the default memory of the simulation.
COSTS = Costs()


#: Products of a reciprocal.
PRODUCTS = 7


def pass_cycles(pixels: int, config: Config) -> int:
    """Return the cycles of a pass of the array: at least those in which its tile moves in."""
    return max(pixels, config.rows // config.weight_rows)


def drain_cycles(channels: int, config: Config) -> int:
    """Return the cycles of the vector unit for some channels of one pixel."""
    return -(-channels // config.lanes) * config.group_cycles


def sum_latency(config: Config) -> int:
    """Return the cycles from the last pixel that enters the array to the drain of its sums."""
    return config.rows + config.columns + COSTS.matrix + COSTS.post + 1


def drain_latency(config: Config) -> int:
    """Return the cycles from the end of a drain to the matrix action that waited for it.

    The end of a drain is its start plus the cycles in the vector unit.
    """
    own = COSTS.prepare_vector + (config.lanes - 1).bit_length() + COSTS.first_request
    after = COSTS.post + 1 + COSTS.prepare + (config.rows - 1).bit_length() + 1
    return own + COSTS.sums + COSTS.to_bytes + after + config.group_cycles - 1


def drain_gap(config: Config) -> int:
    """Return the cycles from the last sum that a drain requests to the first of the next one."""
    prepare = COSTS.prepare_vector + (config.lanes - 1).bit_length()
    return 2 + max(prepare, COSTS.sums) + COSTS.first_request


def softmax_cycles(pixels: int, groups: int) -> int:
    """Return the cycles of SOFTMAX of some pixels, each of ``groups`` groups of channels."""
    instructions = -(-pixels // SOFTMAX_ROWS)
    return 3 * pixels * groups + PRODUCTS * (pixels + instructions * COSTS.product)


def arrival(last: int) -> int:
    """Return the cycle in which a load is complete whose beats would leave the bus at ``last``."""
    return last + COSTS.memory + COSTS.arrival + COSTS.request


def steps(i: Instruction, config: Config, costs: Costs) -> list[tuple[Instruction, int | None]]:
    """Return the tasks of an instruction of the vector unit.

    Returns a VECTOR or FILL for each, and the cycles from its last element to its end if it only
    reduces rows, else None.
    """
    if i.opcode is not Opcode.SOFTMAX:
        return [(i, None)]
    copy = footprint.copy_of(i)
    tree = (config.lanes - 1).bit_length()
    products = PRODUCTS * (i.x_count + costs.product)
    return [
        (copy, costs.maximum + tree),
        (copy, costs.sum + tree + products),
        (copy, None),
    ]


def words(code: Sequence[Instruction]) -> list[int]:
    """Return the number of words of each instruction of a program."""
    encoder = Encoder()
    return [len(encoder.words(i)) for i in code]


def spacing(i: Instruction, config: Config, costs: Costs = COSTS) -> int:
    """Return the cycles between passes of a MATMUL that does not wait for tiles."""
    pixels = footprint.pixels(i)
    return 1 if pixels == 1 and config.forwards else max(pixels, costs.add)


def window(i: Instruction) -> int:
    """Return the number of elements that VECTOR or FILL combines into one."""
    return 1 if i.opcode is Opcode.FILL else i.window_x_count * i.window_y_count


def reads(i: Instruction, config: Config) -> list[int]:
    """Return the groups of channels in each request of VECTOR or FILL for an element of a pixel.

    A request of the accumulators is one row, of the unified buffer one read.
    """
    groups = -(-i.channels // config.lanes)
    if i.opcode is Opcode.VECTOR and i.source == Space.ACCUMULATORS.value:
        return [groups]
    group = config.read_groups if i.opcode is Opcode.VECTOR and not i.source_skip else 1
    return [min(group, groups - first) for first in range(0, groups, group)]


def elements(i: Instruction, config: Config) -> int:
    """Return the cycles in which VECTOR or FILL requests elements, group after group."""
    count = window(i)
    spaces = [max(count, groups * config.group_cycles) for groups in reads(i, config)]
    return footprint.pixels(i) * sum(spaces) - spaces[-1] + count


def bursts(i: Instruction, config: Config) -> list[list[int]]:
    """Return the beats of each burst of each row that a load or store moves."""
    rows, pitch = 1, 0
    match i.opcode:
        case Opcode.LOAD | Opcode.STORE:
            rows, length, pitch = i.rows, i.length, i.external_pitch
        case Opcode.LOAD_WEIGHTS:
            rows, length, pitch = i.tiles, config.tile_bytes, config.tile_bytes
        case _:
            channels = i.kind == Kind.CHANNELS.value
            length = i.count * (PARAMETER_BYTES if channels else TABLE_BYTES)
    beat, frame = config.bus_bytes, config.bus_bytes * config.burst_beats
    result = []
    for row in range(rows):
        start = i.external + row * pitch
        end = start + length
        cuts = [start, *range(start // frame * frame + frame, end, frame), end]
        ends = zip(cuts, cuts[1:], strict=False)
        result.append([-(-last // beat) - first // beat for first, last in ends])
    return result


def pace(i: Instruction, config: Config) -> int:
    """Return the cycles in which a memory writes a beat of a load: tables take a byte a cycle."""
    tables = i.opcode is Opcode.LOAD_PARAMS and i.kind == Kind.TABLES.value
    return config.bus_bytes if tables else 1


def work(i: Instruction, config: Config) -> int:
    """Return the cycles for which an instruction keeps its unit, without any waiting."""
    match i.opcode:
        case Opcode.LOAD | Opcode.STORE | Opcode.LOAD_WEIGHTS | Opcode.LOAD_PARAMS:
            return sum(map(sum, bursts(i, config))) * pace(i, config)
        case Opcode.MATMUL:
            return footprint.steps(i, config) * pass_cycles(spacing(i, config), config)
        case Opcode.MOVE_WEIGHTS:
            return footprint.steps(i, config) * footprint.pixels(i)
        case Opcode.VECTOR | Opcode.FILL:
            return elements(i, config)
        case Opcode.SOFTMAX:
            return sum(elements(task, config) for task, _ in steps(i, config, COSTS))
        case Opcode.NOP | Opcode.FENCE | Opcode.HALT:
            return 1
