"""Requantiser: bias, shifts, multiplication and rounding, then zero point and clamp."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.vector.multiplier import Multiplier, multiplier_of


class LeftShift(Component):
    """Steps 1 and 2 of the arithmetic contract: bias, and a shift that wraps or saturates.

    Members
    -------
    sum, bias, left : In(signed(32)), In(signed(32)), In(5)
        Element, bias, and the number of bits to shift by.
    saturates : In(1)
        A result that does not fit becomes the greatest or least number. Comes one cycle after
        ``sum``.
    shifted : Out(signed(32))
        Result.

    Timing
    ------
    ``shifted`` follows ``sum`` by ``LATENCY`` cycles.
    """

    LATENCY = 2

    def __init__(self) -> None:
        self.sum = In(signed(32))
        self.bias = In(signed(32))
        self.left = In(5)
        self.saturates = In(1)
        self.shifted = Out(signed(32))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        biased = Signal(signed(32), reset_less=True)
        left = Signal(5, reset_less=True)
        m.d.sync += [biased.eq(self.sum + self.bias), left.eq(self.left)]

        # Upper bits of the distance. Without an overflow, all bits that leave equal the sign.
        moved: Value = biased
        lost: list[Value] = []
        for bit in (4, 3, 2, 1):
            before, n = moved, 1 << bit
            lost.append(left[bit] & (before[31 - n : 31] ^ biased[31].replicate(n)).any())
            moved = Signal(32, name=f"moved_{n}")
            m.d.comb += moved.eq(Mux(left[bit], before << n, before))
        # Lowest bit of the distance, and saturation: four choices for each bit of the result.
        negative, odd = biased[31], left[0]
        leaves = Cat(lost).any() | (odd & (moved[30] ^ negative))
        almost = Signal(32, reset_less=True)
        clips, picks = (Signal(name=name, reset_less=True) for name in ("clips", "picks"))
        overflows = self.saturates & leaves
        m.d.sync += [
            almost.eq(moved),
            clips.eq(overflows),
            picks.eq(Mux(overflows, ~negative, odd)),
        ]
        end = Cat(picks.replicate(31), ~picks)
        m.d.comb += self.shifted.eq(Mux(clips, end, Mux(picks, almost << 1, almost)))
        return m


class RightShift(Component):
    """Step 5 of the arithmetic contract, and the rounding of step 4.

    Both roundings together are one increment, 0 or 1, of the shifted product. It depends on the
    bits that the shift drops, as a fraction of the last bit that stays: ``SINGLE`` increments from
    one half on. ``DOUBLE`` increments a positive number from one unit of ``halves`` below one half
    on, and a negative number only above one half.

    Members
    -------
    halves : In(signed(33))
        Product with one bit after the point: ``p >> 30`` of step 4.
    right : In(5)
        Number of bits to shift by.
    doubles : In(1)
        ``DOUBLE``, else ``SINGLE``.
    scaled : Out(signed(32))
        Result.

    Timing
    ------
    ``scaled`` follows ``halves`` by ``LATENCY`` cycles.
    """

    LATENCY = 2

    def __init__(self) -> None:
        self.halves = In(signed(33))
        self.right = In(5)
        self.doubles = In(1)
        self.scaled = Out(signed(32))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [scaled] = data_registers(m, self.scaled)
        positive = ~self.halves[-1]
        moved: Value = self.halves
        # A dropped bit differs from the complement of the sign.
        differs: list[Value] = []
        for bit in reversed(range(5)):
            before, n = moved, 1 << bit
            differs.append(self.right[bit] & (before[:n] ^ positive.replicate(n)).any())
            moved = Signal(signed(33), name=f"moved_{n}")
            m.d.comb += moved.eq(Mux(self.right[bit], before >> n, before))
        left = Signal(signed(33), reset_less=True)
        sticky, both, above = (
            Signal(name=name, reset_less=True) for name in ("sticky", "both", "above")
        )
        m.d.sync += [
            left.eq(moved),
            sticky.eq(Cat(differs).any()),
            both.eq(self.doubles & self.right.any()),
            above.eq(positive),
        ]
        half = left[0]
        rounds = Mux(both, Mux(above, half | ~sticky, half & sticky), half)
        m.d.sync += scaled.eq(left[1:].as_signed() + rounds)
        return m


class RequantizerLane(Component):
    """Steps 1 to 5 of the arithmetic contract for one channel.

    Parameters
    ----------
    primitive : str
        Multiplier, see ``Product``.

    Members
    -------
    sum : In(signed(32))
        Element.
    parameters : In(streams.CHANNEL)
        Parameters of the element's channel, in the same cycle.
    rounding : In(isa.Rounding)
        Rounding, in the same cycle.
    scaled : Out(signed(32))
        Result.

    Timing
    ------
    ``scaled`` follows ``sum`` by ``LATENCY`` cycles. One element each cycle, no backpressure.
    """

    LATENCY = LeftShift.LATENCY + Multiplier.LATENCY + RightShift.LATENCY

    def __init__(self, *, primitive: str = "portable") -> None:
        self.primitive = primitive
        self.sum = In(signed(32))
        self.parameters = In(streams.CHANNEL)
        self.rounding = In(isa.Rounding)
        self.scaled = Out(signed(32))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.left = left = LeftShift()
        m.submodules.multiplier = multiplier = multiplier_of(self.primitive)
        m.submodules.right = right = RightShift()
        p = self.parameters
        single = self.rounding == isa.Rounding.SINGLE
        enters, leaves = left.LATENCY, left.LATENCY + multiplier.LATENCY
        for name, port, value, cycles in (
            ("factor", multiplier.b, p.multiplier, enters),
            ("saturates", left.saturates, single, enters - 1),
            ("right", right.right, p.right, leaves),
            ("doubles", right.doubles, ~single, leaves),
        ):
            m.d.comb += port.eq(delayed(m, value, cycles, name=name, reset_less=True)[-1])
        m.d.comb += [
            left.sum.eq(self.sum),
            left.bias.eq(p.bias),
            left.left.eq(p.left),
            multiplier.a.eq(left.shifted),
            right.halves.eq(multiplier.halves),
            self.scaled.eq(right.scaled),
        ]
        return m


class Requantizer(Component):
    """Steps 1 to 5 of the arithmetic contract for a group of channels.

    Parameters
    ----------
    lanes : int
        Channels of a group.
    primitive : str
        Multiplier, see ``Product``.

    Members
    -------
    sums : In(ArrayLayout(signed(32), lanes))
        Elements.
    parameters : In(ArrayLayout(streams.CHANNEL, lanes))
        Parameters of the elements' channels, in the same cycle.
    rounding : In(isa.Rounding)
        Rounding, in the same cycle.
    scaled : Out(ArrayLayout(signed(32), lanes))
        Results.

    Timing
    ------
    ``scaled`` follows ``sums`` by ``LATENCY`` cycles. One group each cycle, no backpressure.

    Raises
    ------
    ValueError
        If there are no lanes.
    """

    LATENCY = RequantizerLane.LATENCY

    def __init__(self, *, lanes: int, primitive: str = "portable") -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        self.primitive = primitive
        self.sums = In(data.ArrayLayout(signed(32), lanes))
        self.parameters = In(data.ArrayLayout(streams.CHANNEL, lanes))
        self.rounding = In(isa.Rounding)
        self.scaled = Out(data.ArrayLayout(signed(32), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for i in range(self.lanes):
            m.submodules[f"lane_{i}"] = lane = RequantizerLane(primitive=self.primitive)
            m.d.comb += [
                lane.sum.eq(self.sums[i]),
                lane.parameters.eq(self.parameters[i]),
                lane.rounding.eq(self.rounding),
                self.scaled[i].eq(lane.scaled),
            ]
        return m


class Clamp(Component):
    """Step 6 of the arithmetic contract without the table: zero point and clamp.

    Parameters
    ----------
    lanes : int
        Channels of a group.

    Members
    -------
    scaled : In(ArrayLayout(signed(32), lanes))
        Results of the requantiser.
    zero_point, low, high : In(signed(8))
        Zero point, least and greatest result, in the same cycle.
    bytes : Out(ArrayLayout(signed(8), lanes))
        ``min(max(scaled + zero_point, low), high)``, the sum exact.

    Timing
    ------
    ``bytes`` follow ``scaled`` by ``LATENCY`` cycles. One group each cycle, no backpressure.
    """

    LATENCY = 2

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        self.scaled = In(data.ArrayLayout(signed(32), lanes))
        self.zero_point = In(signed(8))
        self.low = In(signed(8))
        self.high = In(signed(8))
        self.bytes = Out(data.ArrayLayout(signed(8), lanes))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        [results] = data_registers(m, self.bytes)
        # If `low` is above `high`, the result is `high`. Two lanes share a copy.
        bounds = [
            [
                Signal(signed(8), name=f"{name}_{n}", reset_less=True, attrs=COPY)
                for name in ("low", "high")
            ]
            for n in range((self.lanes + 1) // 2)
        ]
        for low, high in bounds:
            m.d.sync += [
                low.eq(Mux(self.high < self.low, self.high, self.low)),
                high.eq(self.high),
            ]
        for i in range(self.lanes):
            low, high = bounds[i // 2]
            scaled = self.scaled[i]
            # A number of more than nine bits is out of bounds with any zero point.
            fits = scaled[8:31] == scaled[31].replicate(23)
            near = Signal(signed(9), name=f"near_{i}")
            moved = Signal(signed(10), name=f"moved_{i}", reset_less=True)
            m.d.comb += near.eq(Cat(Mux(fits, scaled[:8], (~scaled[31]).replicate(8)), scaled[31]))
            m.d.sync += [
                moved.eq(near + self.zero_point),
                results[i].eq(Mux(high < moved, high, Mux(moved < low, low, moved[:8]))),
            ]
        return m
