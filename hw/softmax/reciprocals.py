"""Reciprocals of the sums of rows, from products of the requantiser."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data
from amaranth.lib.memory import Memory

from celosia.hw.arch.config import SOFTMAX_ROWS
from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.softmax.reduction import MARK, SUM_BITS

#: First guess of a reciprocal, 48/17, and its slope, −32/17, with 29 bits after the point.
GUESS, SLOPE = 1515870810, -1010580540

#: Operands of a product: a lane of the requantiser rounds ``a · b / 2³¹``.
PRODUCT = data.StructLayout({"valid": 1, "a": signed(32), "b": unsigned(31)})

#: Multiplier and shift to the right that divide by the sum of a row.
SHARE = data.StructLayout({"multiplier": unsigned(31), "right": unsigned(5)})


class Normalizer(Component):
    """Shifts a sum to the left until its highest bit is set.

    Members
    -------
    mark, total : In(MARK), In(SUM_BITS)
        Sum of a row.
    done, half, right : Out(MARK), Out(unsigned(31)), Out(unsigned(5))
        The shifted sum, its bit 30 set: a number from ½ to 1 with 31 bits after the point. And 31
        less the bits shifted by; a sum of 0 counts as shifted by 31.

    Timing
    ------
    Results follow a sum by ``LATENCY`` cycles. One sum each cycle.
    """

    LATENCY = 2

    def __init__(self) -> None:
        self.mark = In(MARK)
        self.total = In(SUM_BITS)
        self.done = Out(MARK)
        self.half = Out(31)
        self.right = Out(5)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.done.eq(delayed(m, self.mark, self.LATENCY, name="mark")[-1])
        word: Value = Cat(Const(0, 31 - SUM_BITS), self.total)
        zeros: list[Value] = []
        for bits in ((4, 3), (2, 1, 0)):
            for bit in bits:
                n = 1 << bit
                empty = Signal(name=f"empty_{n}")
                moved = Signal(31, name=f"moved_{n}")
                m.d.comb += [
                    empty.eq(~word[31 - n :].any()),
                    moved.eq(Mux(empty, word << n, word)),
                ]
                word = moved
                zeros.insert(0, empty)
            held = Signal(31 + len(zeros), name=f"held_{bits[0]}", reset_less=True)
            m.d.sync += held.eq(Cat(word, *zeros))
            word, zeros = held[:31], list(held[31:])
        m.d.comb += [self.half.eq(word | 1 << 30), self.right.eq(~Cat(*zeros))]
        return m


class Reciprocals(Component):
    """Reciprocals of the sums of up to ``SOFTMAX_ROWS`` rows.

    With ``h`` the normalised sum, from ½ to 1, ``x = 48/17 − 32/17·h``. Then three times
    ``e = 1 − h·x`` and ``x += x·e``: the steps of Newton and Raphson, as in gemmlowp's
    ``one_over_one_plus_x_for_x_in_0_1``. ``h`` has 31 bits after the point, ``x`` and ``e`` have
    29. Each of the seven products is made for all rows, before the next one.

    Parameters
    ----------
    latency : int
        Cycles from operands in the requantiser to the product.

    Members
    -------
    mark, total : In(MARK), In(SUM_BITS)
        Sums of rows. After the last row (``ends``) the reciprocals are computed.
    product : Out(PRODUCT)
        Operands; they are in the requantiser one cycle later.
    scaled : In(signed(32))
        Product, ``latency`` + 1 cycles after ``product``.
    finished : Out(1)
        All reciprocals can be read.
    row, share : In(range(SOFTMAX_ROWS)), Out(SHARE)
        Row, and its multiplier and shift in the next cycle; not while reciprocals are computed.

    Timing
    ------
    ``finished`` comes ``Normalizer.LATENCY`` + 1 + 7 · (rows + ``latency`` + 3) cycles after the
    last sum.
    """

    def __init__(self, *, latency: int) -> None:
        self.latency = latency
        self.mark = In(MARK)
        self.total = In(SUM_BITS)
        self.product = Out(PRODUCT)
        self.scaled = In(signed(32))
        self.finished = Out(1)
        self.row = In(range(SOFTMAX_ROWS))
        self.share = Out(SHARE)
        super().__init__()

    def _memory(self, m: Module, name: str, width: int, *rows: Value) -> tuple[Any, list[Value]]:
        """Return the write port of a memory of rows, and its words of these rows."""
        memory = Memory(shape=unsigned(width), depth=SOFTMAX_ROWS, init=[], attrs=race.UNDEFINED)
        m.submodules[name] = memory
        reads = [memory.read_port() for _ in rows]
        m.d.comb += [read.addr.eq(row) for read, row in zip(reads, rows, strict=True)]
        return memory.write_port(), [read.data for read in reads]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.normalizer = normalizer = Normalizer()
        m.d.comb += [normalizer.mark.eq(self.mark), normalizer.total.eq(self.total)]
        # Seven passes over the rows; a pass ends with the write of its last row. Pass 0 makes `x`,
        # odd passes make `e`, even ones the next `x`.
        step = Signal(range(7))
        last = Signal(range(SOFTMAX_ROWS), reset_less=True)
        requests = Signal()
        request = Signal(data.StructLayout({"valid": 1, "last": 1, "row": range(SOFTMAX_ROWS)}))
        running = Signal()
        row = Signal(range(SOFTMAX_ROWS))
        m.d.comb += [
            request.valid.eq(requests),
            request.row.eq(row),
            request.last.eq(row == last),
        ]
        *_, to_read, _, written = delayed(m, request, self.latency + 3, name="request")
        pass_ends = Signal()
        m.d.comb += pass_ends.eq(written.valid & written.last)
        m.d.sync += self.finished.eq(pass_ends & (step == 6))
        with m.If(normalizer.done.valid & normalizer.done.ends):
            m.d.sync += [
                running.eq(1),
                requests.eq(1),
                row.eq(0),
                step.eq(0),
                last.eq(normalizer.done.row),
            ]
        with m.Elif(pass_ends):
            m.d.sync += [running.eq(step != 6), requests.eq(step != 6), row.eq(0)]
            m.d.sync += step.eq(step + 1)
        with m.Elif(requests):
            m.d.sync += [row.eq(row + 1), requests.eq(row != last)]

        chosen = Mux(running, row, self.row)
        new_sum = Cat(normalizer.half, normalizer.right)
        write_sum, [of_sum] = self._memory(m, "sums", len(new_sum), chosen)
        write_guess, [guess, again] = self._memory(m, "guesses", 31, chosen, to_read.row)
        write_error, [error] = self._memory(m, "errors", 32, row)
        half, right = of_sum[:31], of_sum[31:]
        first, of_error = step == 0, step[0]
        m.d.comb += [
            self.product.valid.eq(delayed(m, requests, 1, name="requested")[-1]),
            self.product.a.eq(Mux(first, SLOPE, Mux(of_error, guess, error.as_signed()))),
            self.product.b.eq(Mux(first | of_error, half, guess)),
            # 1 has no representation.
            self.share.multiplier.eq(Mux(guess[30], (1 << 31) - 1, guess << 1)),
            self.share.right.eq(right),
        ]
        new_error = Signal(signed(32), reset_less=True)
        new_guess = Signal(31, reset_less=True)
        # 1 - h·x; and x + x·e, whose product has two bits less after the point.
        m.d.sync += [
            new_error.eq((1 << 29) - self.scaled),
            new_guess.eq(Mux(first, GUESS + self.scaled, again + (self.scaled << 2))),
        ]
        done = normalizer.done
        for port, valid, at, word in (
            (write_sum, done.valid, done.row, new_sum),
            (write_guess, written.valid & ~of_error, written.row, new_guess),
            (write_error, written.valid & of_error, written.row, new_error),
        ):
            m.d.comb += [port.en.eq(valid), port.addr.eq(at), port.data.eq(word)]
        return m
