"""Cells of the systolic array: multiply and add, for one column or two."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.fanout import data_registers
from celosia.hw.targets.product import GatedSum, Product


class Cell(wiring.Component, ABC):
    """Weight-stationary multiply-accumulate cell of one or more neighbouring columns.

    Multiplies the activation arriving from the west by the active weight of each column and adds
    the partial sum arriving from the north. Shadow weights load meanwhile; ``switch_in`` makes them
    the active ones. All variants have these ports and this timing.

    Parameters
    ----------
    sum_bits : int
        Width of partial sums in bits, signed. At least 16, and wide enough for all sums.

    Members
    -------
    act_in, act_out : In / Out(signed(8))
        Activation from the west, passed east.
    switch_in, switch_out : In / Out(1)
        Makes the shadow weights active, passed east; comes one cycle before the first activation
        of a pass.
    load_in, load_out : In / Out(1)
        Takes ``weights`` of the next cycle as shadow weights, passed east.
    weights : In(BUS_BITS)
        Weights of the columns, packed by ``pack``.
    sums_in, sums_out : In / Out(ArrayLayout(signed(sum_bits), COLUMNS))
        Partial sums from the north, to the south, as ``separated`` takes them.

    Timing
    ------
    ``act_out``, ``switch_out`` and ``load_out`` follow their inputs by ``COLUMNS`` cycles.
    ``sums_out`` follow ``sums_in`` by one and ``act_in`` by ``LATENCY`` cycles. One result each
    cycle, no backpressure. If load and switch come in the same cycle, the old shadow weights become
    active.

    Raises
    ------
    ValueError
        If the sums are too narrow.
    """

    LATENCY = 3
    COLUMNS: ClassVar[int] = 1
    BUS_BITS: ClassVar[int] = 8

    act_in: Signal
    act_out: Signal
    switch_in: Signal
    switch_out: Signal
    load_in: Signal
    load_out: Signal
    weights: Signal
    sums_in: data.View
    sums_out: data.View

    def __init__(self, *, sum_bits: int = 20) -> None:
        if sum_bits < 16:
            raise ValueError(f"sum_bits: wanted at least 16, got {sum_bits}")
        self.sum_bits = sum_bits
        super().__init__(self.ports(sum_bits))

    @classmethod
    def ports(cls, sum_bits: int) -> wiring.Signature:
        """Return the signature of a cell."""
        sums = data.ArrayLayout(signed(sum_bits), cls.COLUMNS)
        return wiring.Signature(
            {
                "act_in": In(signed(8)),
                "act_out": Out(signed(8)),
                "switch_in": In(1),
                "switch_out": Out(1),
                "load_in": In(1),
                "load_out": Out(1),
                "weights": In(cls.BUS_BITS),
                "sums_in": In(sums),
                "sums_out": Out(sums),
            }
        )

    @classmethod
    def pack(cls, weights: list[Value]) -> Value:
        """Return the bus of ``BUS_BITS`` bits that carries ``COLUMNS`` weights of signed(8)."""
        return Cat(weights)

    @classmethod
    def separated(cls, sums: list[Value]) -> list[Value]:
        """Return the sum of each column, of the signed ``sums_out`` of a cell."""
        return sums

    @abstractmethod
    def sums(self, m: Module, shadow: Signal, switch: Signal, act: Signal) -> list[Value]:
        """Multiply by the active weights and add.

        Parameters
        ----------
        m : Module
            Module that gets the logic.
        shadow : Signal(BUS_BITS)
            Packed weights; they become active when ``switch`` is high.
        switch : Signal(1)
            ``switch_in``, one cycle later.
        act : Signal(signed(8))
            ``act_in``, one cycle later.

        Returns
        -------
        list of Value
            ``sums_out`` of the next cycle.
        """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [sums_out] = data_registers(m, self.sums_out)
        shadow = Signal(self.BUS_BITS, reset_less=True)
        act, switch, load = self._pass_east(m)
        with m.If(load):
            m.d.sync += shadow.eq(self.weights)
        for k, total in enumerate(self.sums(m, shadow, switch, act)):
            m.d.sync += sums_out[k].eq(total)
        return m

    def _pass_east(self, m: Module) -> list[Any]:
        """Pass activation, switch and load east; return them, delayed by one cycle."""
        late = []
        ports = {
            "act": (self.act_in, self.act_out),
            "switch": (self.switch_in, self.switch_out),
            "load": (self.load_in, self.load_out),
        }
        for name, (value, port) in ports.items():
            [out] = data_registers(m, port)
            steps = [
                Signal.like(out, name=f"{name}_{n + 1}", reset_less=True)
                for n in range(self.COLUMNS - 1)
            ]
            for step in (*steps, out):
                m.d.sync += step.eq(value)
                value = step
            late.append((*steps, out)[0])
        return late


class SingleCell(Cell):
    """One column, one ``Product`` of kind ``PRIMITIVE``."""

    PRIMITIVE: ClassVar[str] = "portable"

    def sums(self, m: Module, shadow: Signal, switch: Signal, act: Signal) -> list[Value]:
        m.submodules.product = product = Product(signed(8), signed(8), primitive=self.PRIMITIVE)
        m.d.comb += [product.a.eq(self.act_in), product.b.eq(shadow), product.b_enable.eq(switch)]
        return [self.sums_in[0] + product.p]


class LogicCell(SingleCell):
    """One column, without a hardware multiplier."""

    PRIMITIVE = "logic"


class Ecp5Cell(SingleCell):
    """One column, one MULT18X18D with its own registers."""

    PRIMITIVE = "ecp5"


class PairCell(Cell):
    """Two columns, one multiplier of 18 × 18 bits.

    The factor ``w1 * 2**9 + w0`` fits 18 bits. In its product the upper seven bits of ``a * w0``
    overlap the lower seven of ``a * w1``. Logic computes the latter and subtracts them, as
    M. Langhammer et al., "Extracting INT8 multipliers from INT18 multipliers", FPL 2019. That gives
    the first product. The second one is separated below the array, not in each cell: ``sums[1]`` is
    the sum of the second column plus ``sums[0] >> 9``, which is the sum of all bits of products
    from bit 9 on.
    """

    COLUMNS = 2
    BUS_BITS = 8 + 9 + 7
    PRIMITIVE: ClassVar[str] = "portable"

    @classmethod
    def pack(cls, weights: list[Value]) -> Value:
        """Return ``w0``, ``w1`` less one if ``w0`` is negative, and the lower bits of ``w1``."""
        w0, w1 = (weight.as_signed() for weight in weights)
        return Cat(w0, (w1 - w0[7])[:9], w1[:7])

    @classmethod
    def separated(cls, sums: list[Value]) -> list[Value]:
        first, second = sums
        return [first, (second - (first >> 9))[: len(second)].as_signed()]

    def sums(self, m: Module, shadow: Signal, switch: Signal, act: Signal) -> list[Value]:
        m.submodules.product = product = Product(signed(8), signed(18), primitive=self.PRIMITIVE)
        low_weight = Signal(7, reset_less=True)
        with m.If(switch):
            m.d.sync += low_weight.eq(shadow[17:])
        m.d.comb += [
            product.a.eq(self.act_in),
            product.b.eq(Cat(shadow[:8], shadow[7], shadow[8:17])),
            product.b_enable.eq(switch),
        ]
        low = Signal(7, reset_less=True)
        m.d.sync += low.eq(self._low_product(m, low_weight, act))
        # Bits 9 to 15 of the product are the lower bits of a * w1 plus the upper part of a * w0.
        upper = Signal(signed(7))
        m.d.comb += upper.eq(product.p[9:16] - low)
        # A carry from bit 8 belongs to both sums: the upper part of the first one adds it, too.
        first, second = self.sums_in[0], self.sums_in[1]
        total = Signal(signed(9 + self.sum_bits))
        carry = total[9] ^ second[0] ^ product.p[9]
        more = Signal(signed(self.sum_bits - 8))
        m.d.comb += [
            total.eq(Cat(first[:9], second) + product.p),
            # The bit below the numbers is the carry.
            more.eq(Cat(carry, first[9:]) + Cat(carry, upper).as_signed()),
        ]
        return [Cat(total[:9], more[1:]), total[9:]]

    def _low_product(self, m: Module, weight: Value, act: Value) -> Value:
        """Return the lower seven bits of a product."""
        # Each sum has two partial products, of the necessary length.
        pairs = []
        for n in (0, 2):
            adder = GatedSum(width=6 - n, primitive=self.PRIMITIVE)
            m.submodules[f"rows_{n}"] = adder
            m.d.comb += [
                adder.x.eq(weight[1 : 7 - n]),
                adder.x_gate.eq(act[n]),
                adder.y.eq(weight[: 6 - n]),
                adder.y_gate.eq(act[n + 1]),
            ]
            pairs.append(Cat(weight[0] & act[n], adder.sum))
        # A carry chain of three bits would take more than the logic.
        x, y = weight[:3] & act[4].replicate(3), weight[:2] & act[5].replicate(2)
        top = Cat(x[0], x[1] ^ y[0], x[2] ^ y[1] ^ (x[1] & y[0]) ^ (weight[0] & act[6]))
        lower, upper = pairs
        both = Signal(5)
        m.d.comb += both.eq(lower[2:] + upper)
        return Cat(lower[:2], both[:2], (both[2:] + top)[:3])


class Ecp5PairCell(PairCell):
    """Two columns, one MULT18X18D with its own registers."""

    PRIMITIVE = "ecp5"


class Ice40PairCell(Cell):
    """Two columns, one SB_MAC16 of an iCE40 as two multipliers of 8 × 8 bits."""

    COLUMNS = 2
    BUS_BITS = 16

    def sums(self, m: Module, shadow: Signal, switch: Signal, act: Signal) -> list[Value]:
        out = Signal(32)
        zeros: dict[str, Any] = {
            f"i_{name}": Const(0, width)
            for name, width in (
                *((name, 16) for name in "CD"),
                *((f"{name}HOLD", 1) for name in "ACD"),
                *((f"{place}RST{side}", 1) for place in "IO" for side in ("TOP", "BOT")),
                *((f"OLOAD{side}", 1) for side in ("TOP", "BOT")),
                *((f"ADDSUB{side}", 1) for side in ("TOP", "BOT")),
                *((f"OHOLD{side}", 1) for side in ("TOP", "BOT")),
                *((name, 1) for name in ("CI", "ACCUMCI", "SIGNEXTIN")),
            )
        }
        m.submodules.multiplier = Instance(
            "SB_MAC16",
            p_A_REG=Const(1, 1),
            p_B_REG=Const(1, 1),
            p_MODE_8x8=Const(1, 1),
            p_TOP_8x8_MULT_REG=Const(1, 1),
            p_BOT_8x8_MULT_REG=Const(1, 1),
            # The products themselves, not a sum.
            p_TOPOUTPUT_SELECT=Const(2, 2),
            p_BOTOUTPUT_SELECT=Const(2, 2),
            p_A_SIGNED=Const(1, 1),
            p_B_SIGNED=Const(1, 1),
            i_CLK=ClockSignal(),
            i_CE=Const(1),
            i_BHOLD=~switch,
            i_A=Cat(self.act_in, self.act_in),
            i_B=shadow,
            o_O=out,
            **zeros,
        )
        return [
            self.sums_in[k] + product.as_signed() for k, product in enumerate((out[:16], out[16:]))
        ]


#: Cells of the array by the name that ``Config.cells`` gives them.
CELLS: dict[str, type[Cell]] = {
    "portable": SingleCell,
    "ecp5": Ecp5Cell,
    "pair": PairCell,
    "ecp5_pair": Ecp5PairCell,
    "ice40_pair": Ice40PairCell,
}
