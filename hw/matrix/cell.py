"""One multiply-accumulate cell of the systolic array."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.fanout import reset_less


def multiply_in_logic(a: Value, b: Value) -> Value:
    """Return the product of two signed values without a multiplication.

    No synthesiser spends a hardware multiplier on it. Radix-4 Booth recoding (O. L. MacSorley,
    "High-speed arithmetic in binary computers", 1961): each pair of bits of ``b`` adds −2 to 2 times
    ``a``, half as many terms as bits. A negative term is the complement of its magnitude; the ones that
    complete the complements are gathered into one more term.
    """
    width = len(a) + len(b)
    digits = -(-len(b) // 2)
    # Above its sign, and below its lowest bit.
    bits = [Const(0, 1), *(b[min(n, len(b) - 1)] for n in range(2 * digits))]
    terms: list[Value] = []
    ones: list[Value] = []
    for digit in range(digits):
        below, low, high = bits[2 * digit : 2 * digit + 3]
        recoded = Cat(below, low, high)
        twice = (recoded == 0b011) | (recoded == 0b100)
        magnitude = Mux(twice, a << 1, Mux(low ^ below, a, 0)).as_signed()[: len(a) + 1]
        complement = magnitude ^ high.replicate(len(a) + 1)
        terms.append(Cat(Const(0, 2 * digit), complement).as_signed())
        ones += [high, Const(0, 1)]
    terms.append(Cat(*ones).as_unsigned())
    while len(terms) > 1:
        paired = [x + y for x, y in zip(terms[::2], terms[1::2], strict=False)]
        terms = paired + terms[len(paired) * 2 :]
    return terms[0][:width].as_signed()


class Cell(wiring.Component):
    """Weight-stationary multiply-accumulate cell.

    Multiplies the activation arriving from the west by the active weight and adds the partial sum
    arriving from the north. A shadow weight loads meanwhile; ``switch_in`` makes it the active one.

    Parameters
    ----------
    data_bits : int
        Width of activations and weights in bits, signed. At least 2.
    sum_bits : int
        Width of partial sums in bits, signed. At least ``2 * data_bits``; sums wrap.
    dsp : bool
        Whether the multiplication may use a hardware multiplier.

    Members
    -------
    act_in, act_out : In / Out(signed(data_bits))
        Activation from the west, passed east.
    switch_in, switch_out : In / Out(1)
        Makes the shadow weight active; comes one cycle ahead of the first activation of a pass.
    load_in, load_out : In / Out(1)
        Takes ``weight`` into the shadow weight, passed east.
    weight : In(signed(data_bits))
        The column's weight bus.
    sum_in, sum_out : In / Out(signed(sum_bits))
        Partial sum from the north, one cycle behind the activation it belongs to; to the south.

    Timing
    ------
    ``act_out``, ``switch_out`` and ``load_out`` follow by one cycle, ``sum_out`` follows ``sum_in``
    by one and ``act_in`` by ``LATENCY`` = 2 cycles. One result each cycle, no backpressure. A load
    and a switch in the same cycle hand the old shadow weight on.
    """

    LATENCY = 2

    act_in: Signal
    act_out: Signal
    switch_in: Signal
    switch_out: Signal
    load_in: Signal
    load_out: Signal
    weight: Signal
    sum_in: Signal
    sum_out: Signal

    def __init__(self, *, data_bits: int = 8, sum_bits: int = 20, dsp: bool = True) -> None:
        if data_bits < 2:
            raise ValueError(f"data_bits: wanted at least 2, got {data_bits}")
        if sum_bits < 2 * data_bits:
            raise ValueError(f"sum_bits: wanted at least {2 * data_bits}, got {sum_bits}")
        self.data_bits = data_bits
        self.sum_bits = sum_bits
        self.dsp = dsp
        super().__init__(
            {
                "act_in": In(signed(data_bits)),
                "act_out": Out(signed(data_bits)),
                "switch_in": In(1),
                "switch_out": Out(1),
                "load_in": In(1),
                "load_out": Out(1),
                "weight": In(signed(data_bits)),
                "sum_in": In(signed(sum_bits)),
                "sum_out": Out(signed(sum_bits)),
            }
        )
        reset_less(self, "act_out", "switch_out", "load_out", "sum_out")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shadow = Signal(signed(self.data_bits), reset_less=True)
        active = Signal(signed(self.data_bits), reset_less=True)
        product = Signal(signed(2 * self.data_bits), reset_less=True)
        with m.If(self.load_in):
            m.d.sync += shadow.eq(self.weight)
        with m.If(self.switch_in):
            m.d.sync += active.eq(shadow)
        multiplied = self.act_in * active if self.dsp else multiply_in_logic(self.act_in, active)
        m.d.sync += [
            product.eq(multiplied),
            self.sum_out.eq(self.sum_in + product),
            self.act_out.eq(self.act_in),
            self.switch_out.eq(self.switch_in),
            self.load_out.eq(self.load_in),
        ]
        return m
