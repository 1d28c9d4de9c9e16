"""Header of a request of the host link, and the check of it."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.link import CRC_BYTES, HEADER_BYTES, INFO_BYTES, Operation
from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS
from celosia.hw.lib.component import Component

#: Header of a request, as it lies in its slot.
HEADER = data.StructLayout({"sequence": 8, "operation": 8, "count": 16, "address": 32})


class RequestCheck(Component):
    """Check of a request: which operation it is, and whether it is valid.

    Parameters
    ----------
    slot_bytes : int
        Bytes of a slot.
    payload_bytes : int
        Most bytes that a request may transfer.

    Members
    -------
    header, length : In(HEADER), In(range(slot_bytes + 1))
        The request, and the bytes of its frame.
    check : In(1)
        Checks the request.
    is_info, is_read, is_write : Out(1)
        Kind of the operation; none of them if there is no such operation.
    to_registers : Out(1)
        The operation is one of registers.
    wrong : Out(1)
        The request checked last is not valid.

    Timing
    ------
    The kind follows ``header`` at once, ``to_registers`` one cycle later, so ``header`` is constant
    in the cycle before ``check``. ``wrong`` is valid in the cycle after ``check``.
    """

    def __init__(self, *, slot_bytes: int, payload_bytes: int) -> None:
        self.payload_bytes = payload_bytes
        super().__init__(
            {
                "header": In(HEADER),
                "length": In(range(slot_bytes + 1)),
                "check": In(1),
                "is_info": Out(1),
                "is_read": Out(1),
                "is_write": Out(1),
                "to_registers": Out(1),
                "wrong": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        header = self.header
        end = Signal(33)
        limit = Signal(33)
        length = Signal(17)
        reads = Signal()
        writes = Signal()
        m.d.comb += [
            reads.eq(header.operation == Operation.READ_REGISTERS),
            writes.eq(header.operation == Operation.WRITE_REGISTERS),
            self.is_info.eq(header.operation == Operation.INFO),
            self.is_read.eq((header.operation == Operation.READ) | reads),
            self.is_write.eq((header.operation == Operation.WRITE) | writes),
            end.eq(header.address + header.count),
            limit.eq(Mux(self.to_registers, 1 << REGISTER_ADDRESS_BITS, 1 << 32)),
            length.eq(Mux(self.is_write, header.count, 0) + (HEADER_BYTES + CRC_BYTES)),
        ]
        m.d.sync += self.to_registers.eq(reads | writes)
        wrong = Signal(6)
        with m.If(self.check):
            m.d.sync += wrong.eq(
                Cat(
                    ~(self.is_info | self.is_read | self.is_write),
                    (header.count == 0) | (header.count > self.payload_bytes),
                    self.length != length,
                    end > limit,
                    self.to_registers & Cat(header.address[:2], header.count[:2]).any(),
                    self.is_info & (header.count != INFO_BYTES),
                )
            )
        m.d.comb += self.wrong.eq(wrong.any())
        return m
