"""Multipliers of different parts with the same ports: input registers, product, output register."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    Mux,
    Shape,
    Signal,
    Value,
    signed,
    unsigned,
)

from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import data_registers

__all__ = [
    "ECP5_BITS",
    "PRIMITIVES",
    "GatedSum",
    "NextCount",
    "Product",
    "multiply_in_logic",
]

#: Bits of each factor, as a signed number, of the multiplier of an ECP5.
ECP5_BITS = 18


def partial_products(a: Value, b: Value) -> list[Value]:
    """Return signed values whose sum is the product of two signed ones.

    Synthesis uses no hardware multiplier for it. Radix-4 Booth recoding (O. L. MacSorley,
    "High-speed arithmetic in binary computers", 1961): each pair of bits of ``b`` adds −2 to 2
    times ``a``, half as many terms as bits. A negative term is the complement of its magnitude; the
    one that completes it stands in the empty bits of the next term, that of the last in a term of
    its own.
    """
    digits = -(-len(b) // 2)
    # Above its sign, and below its lowest bit.
    bits = [Const(0, 1), *(b[min(n, len(b) - 1)] for n in range(2 * digits))]
    terms: list[Value] = []
    one: Value = Const(0, 1)
    for digit in range(digits):
        below, low, high = bits[2 * digit : 2 * digit + 3]
        recoded = Cat(below, low, high)
        twice = (recoded == 0b011) | (recoded == 0b100)
        magnitude = Mux(twice, a << 1, Mux(low ^ below, a, 0)).as_signed()[: len(a) + 1]
        complement = magnitude ^ high.replicate(len(a) + 1)
        empty = [Const(0, 2 * digit - 2), one, Const(0, 1)] if digit else []
        terms.append(Cat(*empty, complement).as_signed())
        one = high
    return [*terms, Cat(Const(0, 2 * digits - 2), one, Const(0, 1)).as_signed()]


def add_up(terms: list[Value]) -> Value:
    """Return the sum of values, pair by pair."""
    while len(terms) > 1:
        paired = [x + y for x, y in zip(terms[::2], terms[1::2], strict=False)]
        terms = paired + terms[len(paired) * 2 :]
    return terms[0]


def multiply_in_logic(a: Value, b: Value) -> Value:
    """Return the product of two signed values from ``partial_products``."""
    return add_up(partial_products(a, b))[: len(a) + len(b)].as_signed()


class Product(Component):
    """Product of two numbers, with registers at its inputs and its output.

    Parameters
    ----------
    a, b : Shape
        Shapes of the factors. With ``"ecp5"`` they have ``ECP5_BITS`` at most as signed numbers.
    primitive : str
        One of ``PRIMITIVES``: ``"portable"``, an operator ``*``, which synthesis maps; ``"logic"``,
        look-up tables only; ``"ecp5"``, one MULT18X18D with its internal registers.

    Members
    -------
    a, b : In
        Factors.
    a_enable, b_enable : In(1)
        The input registers take ``a``, ``b`` in this cycle.
    p : Out
        Product.

    Timing
    ------
    ``p`` follows ``a`` and ``b`` by ``LATENCY`` cycles, one product each cycle. Nothing is reset.

    Raises
    ------
    ValueError
        If there is no such primitive, or the factors do not fit it.
    """

    LATENCY = 2

    def __init__(self, a: Shape, b: Shape, *, primitive: str = "portable") -> None:
        if primitive not in PRIMITIVES:
            raise ValueError(f"primitive: wanted one of {', '.join(PRIMITIVES)}, got {primitive!r}")
        for shape in (a, b):
            if primitive == "ecp5" and shape.width + (not shape.signed) > ECP5_BITS:
                raise ValueError(f"ecp5: wanted factors of {ECP5_BITS} bits signed, got {shape}")
        self.primitive = primitive
        width = a.width + b.width
        enable: Any = In
        self.a = In(a)
        self.b = In(b)
        self.a_enable = enable(1, init=1)
        self.b_enable = enable(1, init=1)
        self.p = Out(signed(width) if a.signed or b.signed else unsigned(width))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        PRIMITIVES[self.primitive](m, self)
        return m


def _held(m: Module, product: Product) -> tuple[Signal, Signal]:
    a = Signal.like(product.a, name="a_held", reset_less=True)
    b = Signal.like(product.b, name="b_held", reset_less=True)
    with m.If(product.a_enable):
        m.d.sync += a.eq(product.a)
    with m.If(product.b_enable):
        m.d.sync += b.eq(product.b)
    return a, b


def _portable(m: Module, product: Product) -> None:
    a, b = _held(m, product)
    [p] = data_registers(m, product.p)
    m.d.sync += p.eq(a * b)


def _logic(m: Module, product: Product) -> None:
    a, b = (
        value if value.shape().signed else Cat(value, Const(0, 1)).as_signed()
        for value in _held(m, product)
    )
    [p] = data_registers(m, product.p)
    m.d.sync += p.eq(multiply_in_logic(a, b))


def _bits(name: str, value: Value) -> dict[str, Value]:
    """Return the ports of an instance that stand for the bits of ``value``."""
    return {f"{name}{bit}": value[bit] for bit in range(len(value))}


def _ecp5(m: Module, product: Product) -> None:
    def aligned(value: Value) -> tuple[Value, int]:
        """Return a factor at the upper end of its port, and its distance from the lower one.

        A zero below costs nothing, a copy of the sign above a wire.
        """
        sign = [] if value.shape().signed else [Const(0, 1)]
        empty = ECP5_BITS - len(value) - len(sign)
        return Cat(Const(0, empty), value, *sign), empty

    a, a_empty = aligned(product.a)
    b, b_empty = aligned(product.b)
    empty = a_empty + b_empty
    out = Signal(2 * ECP5_BITS)
    ones: dict[str, Any] = {f"i_SIGNED{factor}": Const(1) for factor in "AB"}
    zeros: dict[str, Any] = {f"i_SOURCE{factor}": Const(0) for factor in "AB"}
    for n in range(4):
        zeros[f"i_RST{n}"] = Const(0)
    m.submodules.multiplier = Instance(
        "MULT18X18D",
        p_REG_INPUTA_CLK="CLK0",
        p_REG_INPUTA_CE="CE0",
        p_REG_INPUTB_CLK="CLK0",
        p_REG_INPUTB_CE="CE1",
        p_REG_PIPELINE_CLK="NONE",
        p_REG_OUTPUT_CLK="CLK0",
        p_REG_OUTPUT_CE="CE2",
        p_GSR="DISABLED",
        i_CLK0=ClockSignal(),
        i_CE0=product.a_enable,
        i_CE1=product.b_enable,
        i_CE2=Const(1),
        # Not used. Four multipliers of a block have four enables between them, constants too.
        i_CE3=Const(1),
        **ones,
        **zeros,
        **_bits("i_A", a),
        **_bits("i_B", b),
        **_bits("o_P", out),
    )
    m.d.comb += product.p.eq(out[empty : empty + len(product.p)])


#: Implementations of the product, by name.
PRIMITIVES: dict[str, Callable[[Module, Product], None]] = {
    "portable": _portable,
    "logic": _logic,
    "ecp5": _ecp5,
}


def _carry_chain(m: Module, table: int, inputs: list[Value], carry: int) -> Value:
    """Return the sum of two numbers whose bits are functions of four bits, made of CCU2C.

    A CCU2C has a table of four inputs for each of two bits: the sum without carry. Where it is 0,
    both numbers are equal, and the carry is that of its lowest four entries, inputs C and D 0.

    ``table``: bit ``a + 2b + 4c + 8d`` belongs to inputs A, B, C, D; ``inputs``: A, B, C and D,
    values of the width of the sum; ``carry``: into the lowest bit.
    """
    width = len(inputs[0])
    total = []
    carried: Value = Const(carry, 1)
    for low in range(0, width, 2):
        out = Signal(2, name=f"out_{low}")
        over = Signal(name=f"over_{low}")
        ports: dict[str, Any] = {}
        for half in range(2):
            bit = low + half
            for name, value in zip("ABCD", inputs, strict=True):
                ports[f"i_{name}{half}"] = value[bit] if bit < width else Const(0)
            ports[f"o_S{half}"] = out[half]
        m.submodules[f"bits_{low}"] = Instance(
            "CCU2C",
            p_INIT0=Const(table, 16),
            p_INIT1=Const(table, 16),
            p_INJECT1_0="NO",
            p_INJECT1_1="NO",
            i_CIN=carried,
            o_COUT=over,
            **ports,
        )
        total.append(out)
        carried = over
    return Cat(total)[:width]


class GatedSum(Component):
    """Sum of two numbers, each with a gate: two rows of a multiplication.

    Parameters
    ----------
    width : int
        Width of numbers and sum in bits.
    primitive : str
        One of ``PRIMITIVES``. ``"ecp5"``: carry chains that contain the gates; synthesis would make
        separate gates before an adder.

    Members
    -------
    x, y : In(width)
        Numbers.
    x_gate, y_gate : In(1)
        The number counts, else zero.
    sum : Out(width)
        Lower bits of the sum.

    Timing
    ------
    Combinational.
    """

    def __init__(self, width: int, *, primitive: str = "portable") -> None:
        self.width = width
        self.primitive = primitive
        self.x = In(width)
        self.x_gate = In(1)
        self.y = In(width)
        self.y_gate = In(1)
        self.sum = Out(width)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gates = [gate.replicate(self.width) for gate in (self.x_gate, self.y_gate)]
        if self.primitive == "ecp5":
            # (A & B) ^ (C & D); the carry is A & B.
            total = _carry_chain(m, 0x7888, [self.x, gates[0], self.y, gates[1]], 0)
        else:
            total = (self.x & gates[0]) + (self.y & gates[1])
        m.d.comb += self.sum.eq(total)
        return m


class NextCount(Component):
    """A count and one to four more, or zero.

    Parameters
    ----------
    width : int
        Width of the count in bits, at least 2.
    primitive : str
        One of ``PRIMITIVES``. ``"ecp5"``: a carry chain that clears, too; synthesis would do it
        before an adder.

    Members
    -------
    count : In(width)
        Count.
    more : In(2)
        One less than what is added.
    clear : In(1)
        Zero follows.
    next : Out(width)
        Lower bits of the result.

    Timing
    ------
    Combinational.
    """

    def __init__(self, width: int, *, primitive: str = "portable") -> None:
        self.width = width
        self.primitive = primitive
        self.count = In(width)
        self.more = In(2)
        self.clear = In(1)
        self.next = Out(width)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Minus one and one clear.
        clear = self.clear.replicate(self.width)
        more = Signal(self.width)
        m.d.comb += more.eq(Mux(self.clear, 0, self.more))
        if self.primitive == "ecp5":
            # (A | C) ^ B where D is 1; the carry is B.
            ones = Const(-1, self.width)
            total = _carry_chain(m, 0x360C, [self.count, more, clear, ones], 1)
        else:
            total = (self.count | clear) + more + 1
        m.d.comb += self.next.eq(total)
        return m
