"""Cells against the definition of their ports and timing."""

from typing import Any

import numpy as np
import pysim
import pytest
from amaranth.hdl import Const, Module, signed
from amaranth.sim import Simulator
from icarus import Player

from celosia.hw.arch import config
from celosia.hw.matrix.cell import (
    CELLS,
    Ecp5Cell,
    Ecp5PairCell,
    Ice40PairCell,
    LogicCell,
    PairCell,
    SingleCell,
)
from celosia.hw.verilog.build import convert

KINDS = [SingleCell, LogicCell, PairCell]
#: With multipliers of parts inside.
PART_KINDS = [Ecp5Cell, Ecp5PairCell, Ice40PairCell]


def test_narrow_sums_are_refused():
    with pytest.raises(ValueError, match="^sum_bits: wanted at least 16, got 15$"):
        PairCell(sum_bits=15)


def test_configurations_know_all_cells():
    assert tuple(CELLS) == config.CELLS


@pytest.mark.parametrize("kind", CELLS.values())
def test_construction(kind):
    cell = kind(sum_bits=19)
    assert cell.sum_bits == 19
    assert len(cell.weights) == kind.BUS_BITS
    assert cell.sums_in.shape().length == cell.sums_out.shape().length == kind.COLUMNS
    assert kind.COLUMNS in (1, 2)
    packed = kind.pack([Const(0, signed(8))] * kind.COLUMNS)
    assert len(packed) == kind.BUS_BITS


def expected(kind, sum_bits, rows):
    """Return ``act_out, switch_out, load_out, sums_out`` of each cycle, by the docstring."""
    span = 1 << sum_bits
    cycles = len(rows)
    acts, switches, loads, weights, above = (np.array(column) for column in zip(*rows, strict=True))
    seen = []
    # Weights by which the activation of each cycle is multiplied.
    active = np.zeros((cycles + 1, kind.COLUMNS), int)
    shadow = np.zeros(kind.COLUMNS, int)
    for t in range(cycles):
        active[t + 1] = shadow if switches[t] else active[t]
        if loads[t] and t + 1 < cycles:
            shadow = weights[t + 1]

    def late(values, t, by):
        return int(values[t - by]) if t >= by else 0

    # Of a pair, the second sum contains the upper part of the first one.
    shared = issubclass(kind, PairCell)
    for t in range(cycles):
        sums = []
        for k in range(kind.COLUMNS):
            by = kind.LATENCY
            product = int(acts[t - by] * active[t - by][k]) if t >= by else 0
            total = product + (int(above[t - 1][k]) if t else 0)
            if k and shared and t:
                total += (sums[0] >> 9) - (int(above[t - 1][0]) >> 9)
            sums.append((total + span // 2) % span - span // 2)
        passed = tuple(late(values, t, kind.COLUMNS) for values in (acts, switches, loads))
        seen.append((*passed, sums))
    return seen


def packed(kind, weights):
    """Return the bus that carries each of some lists of weights."""
    buses = {}

    async def bench(ctx):
        for row in set(map(tuple, weights)):
            buses[row] = ctx.get(kind.pack([Const(weight, signed(8)) for weight in row]))

    simulator = Simulator(Module())
    simulator.add_testbench(bench)
    simulator.run()
    return [buses[tuple(row)] for row in weights]


def play(cell, rows):
    kind = type(cell)
    buses = packed(kind, [weights for *_, weights, _ in rows])
    seen = []

    async def bench(ctx):
        for (act, switch, load, _, above), bus in zip(rows, buses, strict=True):
            pysim.drive(ctx, cell, act_in=act, switch_in=switch, load_in=load, weights=bus)
            ctx.set(cell.sums_in, above)
            outputs = tuple(ctx.get(o) for o in (cell.act_out, cell.switch_out, cell.load_out))
            seen.append((*outputs, [ctx.get(cell.sums_out[k]) for k in range(kind.COLUMNS)]))
            await ctx.tick()

    pysim.run(cell, bench, cycles_limit=2 * len(rows))
    return seen


def random_rows(kind, sum_bits, rng, count=600):
    # One product more fits.
    top = (1 << (sum_bits - 1)) - (1 << 14)

    def draw(least, most, count):
        return [int(rng.choice([least, most, *rng.integers(least, most, 4)])) for _ in range(count)]

    return [
        (
            *draw(-128, 127, 1),
            int(rng.random() < 0.3),
            int(rng.random() < 0.3),
            draw(-128, 127, kind.COLUMNS),
            draw(-top, top - 1, kind.COLUMNS),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sum_bits", [16, 20, 24])
def test_random_cycles(kind, sum_bits, rng):
    rows = random_rows(kind, sum_bits, rng)
    assert play(kind(sum_bits=sum_bits), rows) == expected(kind, sum_bits, rows)


@pytest.mark.parametrize("kind", PART_KINDS)
@pytest.mark.parametrize("sum_bits", [16, 20])
def test_random_cycles_with_the_model_of_a_part(kind, sum_bits, rng, tmp_path, icarus):
    columns = kind.COLUMNS
    player = Player(
        "dut",
        tmp_path,
        {
            "act_in": 8,
            "switch_in": 1,
            "load_in": 1,
            "weights": kind.BUS_BITS,
            "sums_in": columns * sum_bits,
            "rst": 1,
        },
        {"act_out": 8, "switch_out": 1, "load_out": 1, "sums_out": columns * sum_bits},
        clocks=["clk"],
        verilog=convert(kind(sum_bits=sum_bits), name="dut"),
    )

    def joined(sums):
        return sum(total % (1 << sum_bits) << k * sum_bits for k, total in enumerate(sums))

    rows: list[Any] = random_rows(kind, sum_bits, rng)
    buses = packed(kind, [weights for *_, weights, _ in rows])
    given = [(*row[:3], bus, joined(row[4]), 0) for row, bus in zip(rows, buses, strict=True)]
    wanted = [
        [act % 256, *flags, joined(sums)] for act, *flags, sums in expected(kind, sum_bits, rows)
    ]
    assert player.play(given) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_latency_and_the_cycles_around_a_switch(kind):
    # A load, a load with a switch, and a switch; activations are 1 throughout.
    loads = [1, 1, 0, 0, 0, 0, 0, 0]
    switches = [0, 1, 0, 1, 0, 0, 0, 0]
    weights = [99, 5, 7, 99, 99, 99, 99, 99]
    columns = kind.COLUMNS
    rows = [
        (1, switch, load, [weight] * columns, [0] * columns)
        for switch, load, weight in zip(switches, loads, weights, strict=True)
    ]
    sums = [seen[3][0] for seen in play(kind(), rows)]
    # The switch in cycle 1 hands on the old shadow weight, 5, from cycle 2; that in cycle 3, 7.
    assert kind.LATENCY == 3
    assert sums == [0, 0, 0, 0, 0, 5, 5, 7]


@pytest.mark.parametrize("column", [0, 1])
def test_every_weight_of_a_pair_beside_extreme_ones(column):
    rows = []
    for weight in range(-128, 128):
        for other in (-128, -1, 0, 64, 127):
            pair = [weight, other] if column == 0 else [other, weight]
            rows += [(0, 0, 1, [0, 0], [0, 0]), (0, 1, 0, pair, [0, 0])]
            rows += [(factor, 0, 0, [0, 0], [0, 0]) for factor in (-128, -77, -1, 85, 127)]
    assert play(PairCell(), rows) == expected(PairCell, 20, rows)
