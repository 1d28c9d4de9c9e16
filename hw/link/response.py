"""Sender of the response to a request of the host link."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from celosia.hw.arch.link import INFO_BYTES, RESPONSE, RESPONSE_BYTES, Info, Status
from celosia.hw.lib.component import Component
from celosia.hw.link.frames import FRAME_BYTE


class ResponseSender(Component):
    """Sender of a response: its header, then the data that belong to it.

    The parent counts the bytes: it moves the position in the slot on with ``step``.

    Parameters
    ----------
    info : Info
        Contents of a response to INFO.

    Members
    -------
    send : In(1)
        A response is to be sent: from the first cycle of its header to ``done``.
    sequence, operation, status : In(8), In(8), In(Status)
        The request, and how it ended.
    has_data, is_info : In(1), In(1)
        The response has data; they are those of INFO, not of the slot.
    position : In(range(INFO_BYTES))
        Number of the current byte of INFO.
    is_last : In(1)
        The current byte is the last one; valid in the third cycle after ``step``.
    read_data : In(8)
        The current byte of the slot, valid as ``is_last``.
    step : Out(1)
        The next byte is the current one in the next cycle.
    o : Out(stream of FRAME_BYTE)
        Contents of the frame.
    done : Out(1)
        The response has left.

    Timing
    ------
    A byte each cycle in the header, in three cycles after it; ``done`` comes one cycle after the
    last byte.
    """

    def __init__(self, *, info: Info) -> None:
        self.info = info
        super().__init__(
            {
                "send": In(1),
                "sequence": In(8),
                "operation": In(8),
                "status": In(Status),
                "has_data": In(1),
                "is_info": In(1),
                "position": In(range(INFO_BYTES)),
                "is_last": In(1),
                "read_data": In(8),
                "step": Out(1),
                "o": Out(stream.Signature(FRAME_BYTE)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        o = self.o
        index = Signal(range(RESPONSE_BYTES))
        header = Array([self.sequence, self.operation | RESPONSE, self.status.as_value()])
        info = Const(int.from_bytes(self.info.encode(), "little"), 8 * INFO_BYTES)
        info_byte = info.word_select(self.position, 8)
        header_ends = index == RESPONSE_BYTES - 1
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += [
                    o.valid.eq(self.send),
                    o.payload.data.eq(header[index]),
                    o.payload.last.eq(header_ends & ~self.has_data),
                ]
                with m.If(self.send & o.ready):
                    m.d.sync += index.eq(index + 1)
                    with m.If(header_ends):
                        m.d.sync += index.eq(0)
                        m.next = "DONE"
                    with m.If(header_ends & self.has_data):
                        m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "FETCHED"
            with m.State("FETCHED"):
                m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [
                    o.valid.eq(1),
                    o.payload.data.eq(Mux(self.is_info, info_byte, self.read_data)),
                    o.payload.last.eq(self.is_last),
                    self.step.eq(o.ready),
                ]
                with m.If(o.ready):
                    m.next = "FETCH"
                    with m.If(self.is_last):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "HEADER"
        return m
