"""Unified buffer: R byte banks with rotators, so that R bytes can start at any byte address."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import Component, In, Out, array
from celosia.hw.lib.delay import delayed
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.memory import parity as guard
from celosia.hw.memory.bank import bank_of

#: Most lanes that are rotated as an expression for each lane, which grows with their square.
_MOST = 16

#: Copies of an amount, of which each rotates some bits of all lanes.
_COPIES = 2


def rotated(m: Module, lanes: list[Value], amount: Value) -> list[Value]:
    """Return ``lanes`` rotated by ``amount``: result ``(i + amount) mod n`` is lane ``i``.

    The number of lanes, all of one width, must be a power of two. One level of multiplexers for
    each bit of ``amount``. ``m`` gets the logic.
    """
    count = len(lanes)
    if count > _MOST:
        width, word = len(lanes[0]), Cat(lanes)
        for bit in range((count - 1).bit_length()):
            turned = Signal(len(word), name=f"rotated_{bit}")
            step = width << bit
            m.d.comb += turned.eq(Mux(amount[bit], Cat(word[-step:], word[:-step]), word))
            word = turned
        return [word[i * width : (i + 1) * width] for i in range(count)]
    for bit in range((count - 1).bit_length()):
        step = 1 << bit
        lanes = [Mux(amount[bit], lanes[(i - step) % count], lanes[i]) for i in range(count)]
    return lanes


def rotated_in_parts(m: Module, lanes: list[Value], amounts: list[Value]) -> list[Value]:
    """Return ``rotated`` lanes; each of the equal ``amounts`` rotates some bits of all lanes."""
    width = -(-len(lanes[0]) // len(amounts))
    parts = [
        rotated(m, [lane[n * width : (n + 1) * width] for lane in lanes], amount)
        for n, amount in enumerate(amounts)
    ]
    return [Cat(bits) for bits in zip(*parts, strict=True)]


class BankMapper(Component):
    """Bank mapper: row number of each bank for an access in lane order.

    Parameters
    ----------
    rows, unified_bytes : int
        See ``Config``.
    carried_bits : int
        Width of ``carried``.

    Members
    -------
    access, access_valid : In(``streams.unified_read``), In(1)
        Access and its valid bit.
    offsets : In(ArrayLayout(unsigned, 2))
        Lower bits of the access's address, in equal registers.
    carried : In(carried_bits)
        Data that are delayed with the access.
    enable : Out(rows)
        Banks of unmasked lanes inside the buffer.
    row : Out(ArrayLayout(unsigned, rows))
        Row in each bank.
    offset : Out(unsigned)
        Lane ``i`` is in bank ``(i + offset) mod rows``.
    fault : Out(1)
        An unmasked lane is outside the buffer.
    valid, carried_out : Out(1), Out(carried_bits)
        ``access_valid`` and ``carried`` of this access.

    Timing
    ------
    Outputs follow inputs by ``LATENCY`` cycles. No backpressure.
    """

    LATENCY = 2

    def __init__(self, *, rows: int, unified_bytes: int, carried_bits: int) -> None:
        self.rows = rows
        self.depth = unified_bytes // rows
        self.offset_bits = (rows - 1).bit_length()
        self.row_bits = (self.depth - 1).bit_length()
        self.access = In(streams.unified_read(rows=rows, unified_bytes=unified_bytes))
        self.access_valid = In(1)
        self.offsets = In(data.ArrayLayout(unsigned(self.offset_bits), _COPIES))
        self.carried = In(carried_bits)
        self.valid = Out(1)
        self.enable = Out(rows)
        self.row = Out(data.ArrayLayout(unsigned(self.row_bits), rows))
        self.offset = Out(self.offset_bits)
        self.fault = Out(1)
        self.carried_out = Out(carried_bits)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_register, offset_register, carried_out = data_registers(
            m, self.row, self.offset, self.carried_out
        )
        count = self.rows
        offsets = [self.offsets[n] for n in range(_COPIES)]
        base = self.access.address[self.offset_bits :]

        # First cycle: mask and skip of each lane are rotated to its bank.
        valid = Signal()
        offset_1 = Signal(self.offset_bits, reset_less=True)
        carried_1 = Signal.like(self.carried, reset_less=True)
        base_1 = Signal(len(base), reset_less=True)
        before_1 = Signal(reset_less=True)
        skip = Signal(data.ArrayLayout(unsigned(self.row_bits + 1), count), reset_less=True)
        mask = Signal(count, reset_less=True)
        skips = rotated_in_parts(m, [self.access.skip[i] for i in range(count)], offsets)
        masks = rotated(m, [self.access.mask[i] for i in range(count)], offsets[0])
        m.d.sync += [
            valid.eq(self.access_valid),
            offset_1.eq(offsets[0]),
            carried_1.eq(self.carried),
            base_1.eq(base),
            before_1.eq(base.all()),
            mask.eq(Cat(masks)),
            *(skip[b].eq(skips[b]) for b in range(count)),
        ]

        # Second cycle: rows. A bank below the offset has a lane past the end of a row: its row is
        # one more. That carry is the only way from the row before the buffer to row 0.
        outside = Signal(count)
        for b in range(count):
            carry = b < offset_1
            row = Signal(self.row_bits + 3, name=f"row_{b}")
            out = Signal(name=f"outside_{b}")
            m.d.comb += [
                row.eq(Cat(1, base_1, before_1 & carry) + Cat(carry, skip[b])),
                out.eq(row[1:] >= self.depth),
            ]
            m.d.sync += [
                row_register[b].eq(row[1:]),
                self.enable[b].eq(valid & mask[b] & ~out),
                outside[b].eq(valid & mask[b] & out),
            ]
        m.d.comb += self.fault.eq(outside.any())
        m.d.sync += [
            self.valid.eq(valid),
            offset_register.eq(offset_1),
            carried_out.eq(carried_1),
        ]
        return m


class Arbiter(Component):
    """Fixed-priority arbiter of accesses with a register after it.

    Parameters
    ----------
    shape : shape
        Payload of the streams, with ``address``.
    count : int
        Streams; the first has priority.
    offset_bits, copies : int
        Width and number of ``offsets``.

    Members
    -------
    requests : In(stream of ``shape``).array(count)
        Requests.
    valid, chosen, payload : Out(1), Out(range(count)), Out(shape)
        A request was taken in the cycle before; number of its stream; the request. Without a
        request they are those of the last stream.
    offsets : Out(ArrayLayout(unsigned(offset_bits), copies))
        Lower bits of the request's address, in equal registers: they rotate all lanes.

    Timing
    ------
    One request each cycle; outputs follow by ``LATENCY`` = 1 cycle.
    """

    LATENCY = 1

    def __init__(
        self, *, shape: data.StructLayout, count: int, offset_bits: int, copies: int
    ) -> None:
        self.count = count
        self.copies = copies
        self.requests = array(In(stream.Signature(shape)), count)
        self.valid = Out(1)
        self.chosen = Out(range(count))
        self.payload = Out(shape)
        self.offsets = Out(data.ArrayLayout(unsigned(offset_bits), copies))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        chosen_register, payload = data_registers(m, self.chosen, self.payload)
        [offsets] = data_registers(m, self.offsets, attrs=COPY)
        free = Signal(self.count + 1, init=1)
        m.d.comb += free[0].eq(1)
        # The last stream is chosen without its `valid`, which comes late.
        chosen = Signal(range(self.count), init=self.count - 1)
        for n, request in enumerate(self.requests):
            m.d.comb += [request.ready.eq(free[n]), free[n + 1].eq(free[n] & ~request.valid)]
            if n < self.count - 1:
                with m.If(free[n] & request.valid):
                    m.d.comb += chosen.eq(n)
        taken = Array([request.payload for request in self.requests])[chosen]
        m.d.sync += [
            self.valid.eq(~free[self.count]),
            chosen_register.eq(chosen),
            payload.eq(taken),
            *(offset.eq(taken.address) for offset in (offsets[n] for n in range(self.copies))),
        ]
        return m


class UnifiedBuffer(Component):
    """R banks of one byte, read and written R bytes at a time from any byte address.

    Parameters
    ----------
    rows, unified_bytes : int
        See ``Config``.
    readers, writers : int
        Numbers of ports; lower ports have priority.
    parity : bool
        Every byte has a parity bit.

    Members
    -------
    reads : In(streams.UnifiedReads).array(readers)
        Reads of each port.
    writes : In(stream of ``streams.unified_write``).array(writers)
        Writes of each port; lanes outside the buffer are not written.
    write_fault : Out(writers)
        ``WRITE_LATENCY`` cycles after a write was taken: an unmasked lane is outside the buffer.

    Timing
    ------
    A response comes ``READ_LATENCY`` cycles after its request was taken. A read that is taken
    ``VISIBLE`` cycles after a write, or later, sees it. One read and one write each cycle.
    """

    #: Of a read after its rows are known: memory, output register, rotator.
    _BANK_LATENCY = 3
    READ_LATENCY = Arbiter.LATENCY + BankMapper.LATENCY + _BANK_LATENCY
    WRITE_LATENCY = Arbiter.LATENCY + BankMapper.LATENCY
    VISIBLE = 1

    def __init__(
        self,
        *,
        rows: int,
        unified_bytes: int,
        readers: int,
        writers: int,
        parity: bool = False,
    ) -> None:
        self.rows = rows
        self.unified_bytes = unified_bytes
        self.readers = readers
        self.writers = writers
        self.parity = parity
        sizes = {"rows": rows, "unified_bytes": unified_bytes}
        self.reads = array(In(streams.UnifiedReads(**sizes)), readers)
        self.writes = array(In(stream.Signature(streams.unified_write(**sizes))), writers)
        self.write_fault = Out(writers)
        super().__init__()

    def _accesses(
        self, m: Module, kind: str, ports: list[stream.Interface], *, copies: int
    ) -> tuple[Arbiter, BankMapper]:
        """Return the arbiter of the reads or writes, and their bank mapper.

        The mapper takes the first ``_COPIES`` of the arbiter's ``copies`` of the offset.
        """
        shape = ports[0].payload.shape()
        m.submodules[f"{kind}_mapper"] = mapper = BankMapper(
            rows=self.rows,
            unified_bytes=self.unified_bytes,
            carried_bits=max(1, (len(ports) - 1).bit_length()),
        )
        m.submodules[f"{kind}s"] = arbiter = Arbiter(
            shape=shape, count=len(ports), offset_bits=mapper.offset_bits, copies=copies
        )
        for port, request in zip(ports, arbiter.requests, strict=True):
            wiring.connect(m, request, wiring.flipped(port))
        access = arbiter.payload
        m.d.comb += [
            mapper.access.address.eq(access.address),
            mapper.access.skip.eq(access.skip),
            mapper.access.mask.eq(access.mask),
            mapper.access_valid.eq(arbiter.valid),
            mapper.carried.eq(arbiter.chosen),
            *(mapper.offsets[n].eq(arbiter.offsets[n]) for n in range(_COPIES)),
        ]
        return arbiter, mapper

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = self.rows
        ports = [port.request for port in self.reads]
        _, to_read = self._accesses(m, "read", ports, copies=_COPIES)
        writes, to_write = self._accesses(m, "write", self.writes, copies=2 * _COPIES)
        offsets = [writes.offsets[n] for n in range(_COPIES, 2 * _COPIES)]
        lanes = [writes.payload.data[i] for i in range(count)]
        turned = Cat(rotated_in_parts(m, lanes, offsets))
        written = delayed(m, turned, BankMapper.LATENCY, name="written", reset_less=True)[-1]
        m.d.comb += self.write_fault.eq(to_write.fault << to_write.carried_out)

        # Two cycles from the bank to the response: output register, rotator.
        enable = delayed(m, to_read.enable, 1, name="enable", reset_less=True)[-1]
        offset = delayed(m, to_read.offset, 2, name="offset", reset_less=True)[-1]
        fault = delayed(m, to_read.fault, 2, name="fault", reset_less=True)[-1]
        to_reader = (to_read.valid << to_read.carried_out)[: self.readers]
        valid = delayed(m, to_reader, 2, name="valid")[-1]
        read_valid = Signal(self.readers)
        read_data = Signal(data.ArrayLayout(unsigned(8), count), reset_less=True)
        read_fault = Signal(reset_less=True)
        m.d.sync += [read_valid.eq(valid), read_fault.eq(fault)]
        for n, port in enumerate(self.reads):
            m.d.comb += [
                port.valid.eq(read_valid[n]),
                port.data.eq(read_data),
                port.fault.eq(read_fault & read_valid[n]),
            ]
        bytes_read = []
        wrong = Signal(count, reset_less=True)
        for b in range(count):
            shape = guard.stored_shape(unsigned(8), self.parity)
            bank = bank_of(shape, depth=self.unified_bytes // count)
            m.submodules[f"bank_{b}"] = bank
            read = bank.read_port()
            write = bank.write_port()
            value = Signal(8, name=f"value_{b}", reset_less=True)
            m.d.comb += [
                read.addr.eq(to_read.row[b]),
                write.en.eq(to_write.enable[b]),
                write.addr.eq(to_write.row[b]),
                write.data.eq(guard.stored(written.word_select(b, 8))),
            ]
            # A byte that is not read is zero, with correct parity.
            word = Mux(enable[b], read.data, 0)
            m.d.sync += wrong[b].eq(guard.checked(m, value, word, name=f"parity_{b}"))
            bytes_read.append(value)
        ordered = rotated(m, bytes_read, ~offset + 1)
        m.d.sync += [read_data[i].eq(ordered[i]) for i in range(count)]
        m.d.sync += [port.wrong.eq(port.valid & wrong.any()) for port in self.reads]
        return m
