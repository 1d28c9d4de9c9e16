"""Requantiser: bias, shifts, multiplication and rounding, then zero point and clamp."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.fanout import reset_less
from celosia.hw.vector.delay import Delay
from celosia.hw.vector.multiplier import Multiplier

_LEAST = -(1 << 31)
_MOST = (1 << 31) - 1


class RequantizerLane(wiring.Component):
    """Steps 1 to 5 of the arithmetic contract for one channel.

    Parameters
    ----------
    primitive : str
        See ``Multiplier``.

    Members
    -------
    sum : In(signed(32))
        Element.
    parameters : In(streams.CHANNEL)
        Of the element's channel.
    rounding : In(isa.Rounding)
        With the element.
    scaled : Out(signed(32))
        Result.

    Timing
    ------
    ``scaled`` follows ``sum`` by ``LATENCY`` cycles. One element each cycle, no backpressure.
    """

    LATENCY = 4 + Multiplier.LATENCY

    sum: Signal
    parameters: data.View
    rounding: Value
    scaled: Signal

    def __init__(self, *, primitive: str = "portable") -> None:
        self._multiplier = Multiplier(primitive=primitive)
        super().__init__(
            {
                "sum": In(signed(32)),
                "parameters": In(streams.CHANNEL),
                "rounding": In(isa.Rounding),
                "scaled": Out(signed(32)),
            }
        )
        reset_less(self, "scaled")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multiplier = multiplier = self._multiplier
        p = self.parameters
        single = self.rounding == isa.Rounding.SINGLE

        # Step 1.
        biased = Signal(signed(32), reset_less=True)
        left = Signal(5, reset_less=True)
        m.d.sync += [biased.eq(self.sum + p.bias), left.eq(p.left)]

        # Step 2: what leaves at the top must be copies of the sign.
        shifted = Signal(signed(32), reset_less=True)
        negative = Signal(reset_less=True)
        leaves = Signal(reset_less=True)
        magnitude = biased[:31] ^ biased[31].replicate(31)
        lost = Cat(magnitude[bit] & (left > 30 - bit) for bit in range(31))
        m.d.sync += [
            shifted.eq((biased << left)[:32]),
            negative.eq(biased[31]),
            leaves.eq(lost.any()),
        ]

        # Steps 3 and 4.
        late = {}
        for name, value, cycles in (
            ("multiplier", p.multiplier, 2),
            ("saturates", single, 2),
            ("half", ~single | (p.right == 0), 2),
            ("doubles", ~single, 2 + Multiplier.LATENCY),
            ("right", p.right, 2 + Multiplier.LATENCY),
        ):
            # All lanes round alike, so some of these are the same in each.
            delay = Delay(len(value), cycles=cycles, reset_less=True, own=len(value) == 1)
            m.submodules[f"late_{name}"] = delay
            m.d.comb += delay.i.eq(value)
            late[name] = delay.o
        clips = leaves & late["saturates"]
        m.d.comb += [
            multiplier.a.eq(Mux(clips, Mux(negative, _LEAST, _MOST), shifted)),
            multiplier.b.eq(late["multiplier"]),
            multiplier.half.eq(late["half"]),
        ]

        # Step 5. Half of the last place is bit right - 1, or all bits below it.
        high = multiplier.high
        right = late["right"]
        less = late["doubles"] & high[31]
        half = Cat(Mux(less, right > bit + 1, right == bit + 1) for bit in range(31))
        rounded = Signal(signed(33), reset_less=True)
        right_last = Signal(5, reset_less=True)
        m.d.sync += [
            rounded.eq(high + Cat(half, 0).as_signed()),
            right_last.eq(right),
            self.scaled.eq(rounded >> right_last),
        ]
        return m


class Requantizer(wiring.Component):
    """Steps 1 to 5 of the arithmetic contract for a group of channels.

    Parameters
    ----------
    lanes : int
        Channels of a group.
    primitive : str
        See ``Multiplier``.

    Members
    -------
    valid : In(1)
        There is a group.
    sums : In(ArrayLayout(signed(32), lanes))
        Elements.
    parameters : In(ArrayLayout(streams.CHANNEL, lanes))
        Of the elements' channels.
    rounding : In(isa.Rounding)
        With the group.
    scaled_valid, scaled : Out(1), Out(ArrayLayout(signed(32), lanes))
        Results.

    Timing
    ------
    Results follow by ``LATENCY`` cycles. One group each cycle, no backpressure.

    Raises
    ------
    ValueError
        If there are no lanes.
    """

    LATENCY = RequantizerLane.LATENCY

    valid: Signal
    sums: data.View
    parameters: data.View
    rounding: Value
    scaled_valid: Signal
    scaled: data.View

    def __init__(self, *, lanes: int, primitive: str = "portable") -> None:
        if lanes < 1:
            raise ValueError(f"lanes: wanted at least 1, got {lanes}")
        self.lanes = lanes
        self.primitive = primitive
        super().__init__(
            {
                "valid": In(1),
                "sums": In(data.ArrayLayout(signed(32), lanes)),
                "parameters": In(data.ArrayLayout(streams.CHANNEL, lanes)),
                "rounding": In(isa.Rounding),
                "scaled_valid": Out(1),
                "scaled": Out(data.ArrayLayout(signed(32), lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.valids = valids = Delay(1, cycles=self.LATENCY)
        m.d.comb += [valids.i.eq(self.valid), self.scaled_valid.eq(valids.o)]
        for i in range(self.lanes):
            m.submodules[f"lane_{i}"] = lane = RequantizerLane(primitive=self.primitive)
            m.d.comb += [
                lane.sum.eq(self.sums[i]),
                lane.parameters.eq(self.parameters[i]),
                lane.rounding.eq(self.rounding),
                self.scaled[i].eq(lane.scaled),
            ]
        return m


class Clamp(wiring.Component):
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
        Added; least and greatest result. With the group.
    bytes : Out(ArrayLayout(signed(8), lanes))
        ``min(max(scaled + zero_point, low), high)``, the sum exact.

    Timing
    ------
    ``bytes`` follow by ``LATENCY`` cycles. One group each cycle, no backpressure.
    """

    LATENCY = 2

    scaled: data.View
    zero_point: Signal
    low: Signal
    high: Signal
    bytes: data.View

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(
            {
                "scaled": In(data.ArrayLayout(signed(32), lanes)),
                "zero_point": In(signed(8)),
                "low": In(signed(8)),
                "high": In(signed(8)),
                "bytes": Out(data.ArrayLayout(signed(8), lanes)),
            }
        )
        reset_less(self, "bytes")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # The upper bound wins where the bounds cross.
        low = Signal(signed(8), reset_less=True)
        high = Signal(signed(8), reset_less=True)
        m.d.sync += [
            low.eq(Mux(self.low > self.high, self.high, self.low)),
            high.eq(self.high),
        ]
        for i, scaled in enumerate(self.scaled):
            # What does not fit nine bits is out of bounds whatever the zero point.
            fits = scaled[8:31] == scaled[31].replicate(23)
            near = Signal(signed(9), name=f"near_{i}")
            moved = Signal(signed(10), name=f"moved_{i}", reset_less=True)
            m.d.comb += near.eq(Cat(Mux(fits, scaled[:8], (~scaled[31]).replicate(8)), scaled[31]))
            m.d.sync += [
                moved.eq(near + self.zero_point),
                self.bytes[i].eq(Mux(moved > high, high, Mux(moved < low, low, moved[:8]))),
            ]
        return m
