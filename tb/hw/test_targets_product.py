"""Multipliers of parts against the product."""

import itertools

import numpy as np
import pysim
import pytest
from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.sim import Simulator
from icarus import Player

from celosia.hw.targets.product import GatedSum, Product, multiply_in_logic
from celosia.hw.verilog.build import convert

#: Inputs of a product, as in ``factors``.
INPUTS = ("a", "b", "a_enable", "b_enable")


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


def test_unknown_primitives_are_refused():
    with pytest.raises(ValueError, match="^primitive: wanted one of portable, .*, got 'abacus'$"):
        Product(signed(8), signed(8), primitive="abacus")


def test_factors_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="^ecp5: wanted factors of 18 bits signed, got unsigned"):
        Product(signed(18), unsigned(18), primitive="ecp5")


@pytest.fixture
def player(tmp_path, icarus):
    """Makes a player of a component, in Icarus."""

    def of(component, inputs, outputs, **options):
        text = convert(component, name="dut")
        return Player("dut", tmp_path, inputs, outputs, verilog=text, **options)

    return of


def factors(shapes, rng):
    """Return rows of two factors and what enables them."""
    rows = []
    for _ in range(300):
        row = []
        for shape in shapes:
            low = -(1 << (shape.width - 1)) if shape.signed else 0
            row.append(int(rng.integers(low, low + (1 << shape.width))))
        rows.append((*row, *(int(flag) for flag in rng.integers(0, 2, 2))))
    return rows


def registered(rows):
    """Return the product in each cycle."""
    wanted, held = [0], [0, 0]
    for a, b, a_enable, b_enable in rows:
        wanted.append(held[0] * held[1])
        held = [a if a_enable else held[0], b if b_enable else held[1]]
    return wanted[: len(rows)]


@pytest.mark.parametrize("primitive", ["portable", "logic"])
@pytest.mark.parametrize(
    "shapes", [(signed(8), signed(18)), (unsigned(5), signed(6)), (signed(4),) * 2]
)
async def test_registers(primitive, shapes, rng):
    product = Product(*shapes, primitive=primitive)
    rows = factors(shapes, rng)
    seen = []
    ctx = await pysim.simulation(product)
    for row in rows:
        pysim.drive(ctx, product, **dict(zip(INPUTS, row, strict=True)))
        seen.append(ctx.get(product.p))
        await ctx.tick()
    assert seen == registered(rows)
    assert Product.LATENCY == 2


@pytest.mark.parametrize(
    "shapes", [(signed(18), signed(18)), (unsigned(17), signed(8)), (unsigned(9), unsigned(17))]
)
def test_registers_of_a_multiplier_of_the_part(shapes, player, rng):
    product = Product(*shapes, primitive="ecp5")
    widths = [shape.width for shape in shapes]
    inputs = dict(zip((*INPUTS, "rst"), [*widths, 1, 1, 1], strict=True))
    rows = factors(shapes, rng)
    seen = player(product, inputs, {"p": sum(widths)}, clocks=["clk"]).play(
        [(*row, 0) for row in rows]
    )
    assert seen == [[wanted % (1 << sum(widths))] for wanted in registered(rows)]


@pytest.mark.parametrize("width", [1, 4, 5])
def test_sums_of_numbers_taken_or_left(width):
    both = GatedSum(width)
    span = 1 << width

    async def bench(ctx):
        for x, y, gates in itertools.product(range(span), range(span), range(4)):
            pysim.drive(ctx, both, x=x, y=y, x_gate=gates & 1, y_gate=gates >> 1)
            wanted = x * (gates & 1) + y * (gates >> 1)
            assert ctx.get(both.sum) == wanted % span

    simulator = Simulator(both)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("width", [1, 4, 5])
def test_sums_in_carry_chains_of_the_part(width, player):
    both = GatedSum(width, primitive="ecp5")
    span = range(1 << width)
    rows = list(itertools.product(span, span, range(2), range(2)))
    inputs = {"x": width, "y": width, "x_gate": 1, "y_gate": 1}
    seen = player(both, inputs, {"sum": width}).play(rows)
    assert seen == [[(x * p + y * q) % len(span)] for x, y, p, q in rows]
