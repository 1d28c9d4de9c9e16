"""The cell and its logic multiplier against the definition of both."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from celosia.hw.matrix.cell import Cell, multiply_in_logic
from celosia.sim import pysim


def products(width_a, width_b, first, second):
    """Return what ``multiply_in_logic`` makes of each pair: ``first`` steps, ``second`` is wide."""
    a = Signal(signed(width_a))
    m = Module()
    results = []
    for number in second:
        # A signal, not a constant: every factor keeps the whole tree.
        b = Signal(signed(width_b), init=int(number))
        result = Signal(signed(width_a + width_b))
        m.d.comb += result.eq(multiply_in_logic(a, b))
        results.append(result)
    made = []

    async def bench(ctx):
        for number in first:
            ctx.set(a, int(number))
            made.append([ctx.get(result) for result in results])

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return np.array(made)


@pytest.mark.parametrize("block", range(4))
def test_all_products_of_bytes(block):
    first = np.arange(-128, 128)
    second = first[block * 64 : block * 64 + 64]
    assert np.array_equal(products(8, 8, first, second), np.outer(first, second))


@pytest.mark.parametrize(("width_a", "width_b"), [(2, 2), (3, 5), (5, 3), (4, 4), (1, 3), (3, 1)])
def test_all_products_of_other_widths(width_a, width_b):
    first = np.arange(-(1 << (width_a - 1)), 1 << (width_a - 1))
    second = np.arange(-(1 << (width_b - 1)), 1 << (width_b - 1))
    assert np.array_equal(products(width_a, width_b, first, second), np.outer(first, second))


def test_product_is_signed_and_as_wide_as_both_factors():
    product = multiply_in_logic(Signal(signed(8)), Signal(signed(6)))
    assert product.shape() == signed(14)


@pytest.mark.parametrize("data_bits", [-1, 0, 1])
def test_narrow_data_is_refused(data_bits):
    with pytest.raises(ValueError, match=f"^data_bits: wanted at least 2, got {data_bits}$"):
        Cell(data_bits=data_bits)


@pytest.mark.parametrize(("data_bits", "sum_bits"), [(8, 15), (4, 7), (2, 0)])
def test_narrow_sums_are_refused(data_bits, sum_bits):
    wanted = f"^sum_bits: wanted at least {2 * data_bits}, got {sum_bits}$"
    with pytest.raises(ValueError, match=wanted):
        Cell(data_bits=data_bits, sum_bits=sum_bits)


def test_construction():
    cell = Cell(data_bits=4, sum_bits=8, dsp=False)
    assert (cell.data_bits, cell.sum_bits, cell.dsp) == (4, 8, False)
    assert cell.weight.shape() == signed(4) and cell.sum_out.shape() == signed(8)
    assert Cell().sum_bits == 20


def expected(cell, rows):
    """Return ``act_out, switch_out, load_out, sum_out`` seen in each cycle, by the docstring."""
    span = 1 << cell.sum_bits
    shadow = active = 0
    product = 0
    out = (0, 0, 0, 0)
    seen = []
    for act, switch, load, weight, above in rows:
        seen.append(out)
        total = (above + product + span // 2) % span - span // 2
        product = act * active
        active = shadow if switch else active
        shadow = weight if load else shadow
        out = (act, switch, load, total)
    return seen


def play(cell, rows):
    seen = []

    async def bench(ctx):
        for act, switch, load, weight, above in rows:
            ctx.set(cell.act_in, act)
            ctx.set(cell.switch_in, switch)
            ctx.set(cell.load_in, load)
            ctx.set(cell.weight, weight)
            ctx.set(cell.sum_in, above)
            outputs = (cell.act_out, cell.switch_out, cell.load_out, cell.sum_out)
            seen.append(tuple(ctx.get(output) for output in outputs))
            await ctx.tick()

    pysim.run(cell, bench)
    return seen


@pytest.mark.parametrize("dsp", [False, True])
@pytest.mark.parametrize(("data_bits", "sum_bits"), [(8, 20), (8, 16), (2, 4), (5, 24)])
def test_random_cycles(data_bits, sum_bits, dsp, rng):
    cell = Cell(data_bits=data_bits, sum_bits=sum_bits, dsp=dsp)
    byte = 1 << (data_bits - 1)
    top = 1 << (sum_bits - 1)
    rows = []
    for _ in range(400):
        act, weight = (
            int(v) for v in rng.choice([-byte, byte - 1, *rng.integers(-byte, byte, 4)], 2)
        )
        above = int(rng.choice([-top, top - 1, *rng.integers(-top, top, 4)]))
        rows.append((act, int(rng.random() < 0.3), int(rng.random() < 0.3), weight, above))
    assert play(cell, rows) == expected(cell, rows)


@pytest.mark.parametrize("dsp", [False, True])
def test_latency_and_the_cycles_around_a_switch(dsp):
    # A load, a load with a switch, and a switch; activations are 1 throughout.
    loads = [1, 1, 0, 0, 0, 0, 0]
    switches = [0, 1, 0, 1, 0, 0, 0]
    weights = [5, 7, 99, 99, 99, 99, 99]
    rows = [
        (1, switch, load, weight, 0)
        for switch, load, weight in zip(switches, loads, weights, strict=True)
    ]
    cell = Cell(dsp=dsp)
    sums = [seen[3] for seen in play(cell, rows)]
    # The switch in cycle 1 hands on the old shadow weight, 5, from cycle 2; that in cycle 3, 7.
    assert Cell.LATENCY == 2
    assert sums == [0, 0, 0, 0, 5, 5, 7]


@pytest.mark.parametrize("dsp", [False, True])
def test_extreme_products_wrap_in_the_sum(dsp):
    cell = Cell(data_bits=8, sum_bits=16, dsp=dsp)
    rows = [(0, 0, 1, -128, 0), (0, 1, 0, 0, 0), (-128, 0, 0, 0, 0), (0, 0, 0, 0, 32767)]
    rows += [(127, 0, 0, 0, 0), (0, 0, 0, 0, -32768), (0, 0, 0, 0, 0)]
    sums = [seen[3] for seen in play(cell, rows)]
    assert sums[4] == (32767 + 128 * 128 + 32768) % 65536 - 32768
    assert sums[6] == (-32768 - 127 * 128 + 32768) % 65536 - 32768
