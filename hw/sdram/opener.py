"""Opens the row of the chunk to come while columns of the one before are still read or written."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.sdram.signature import ALL_BANKS, BANKS, Command, chunk_layout, command_layout
from celosia.hw.sdram.timing import Part, Timing


class Opener(wiring.Component):
    """Takes chunks in order, precharges and activates for them, and refreshes in between.

    Parameters
    ----------
    part : Part
        The chip.
    timing : Timing
        Its times.
    data_bytes : int
        Bytes of a beat.

    Members
    -------
    i : In(stream of chunk_layout)
        Chunks to prepare.
    o : Out(stream of chunk_layout)
        Chunks whose row is open by the cycle after they are taken.
    owed, refreshed : In(1), Out(1)
        A refresh is due; one is given in this cycle.
    command, grant : Out(command_layout), In(1)
        What the chip should do, ``DESELECT`` for nothing; it does so in this cycle if granted.
    row : Out(row_bits)
        Row of the chunk in work, for the banks.
    open, hit, may_activate, may_precharge : In(BANKS)
        State of the banks.
    claimed : In(BANKS)
        Banks that still have columns to come for chunks handed over.

    Timing
    ------
    A chunk whose row is open takes three cycles. Refreshes go before the next chunk.
    """

    i: stream.Interface
    o: stream.Interface
    owed: Signal
    refreshed: Signal
    command: data.View
    grant: Signal
    row: Signal
    open: Signal
    hit: Signal
    may_activate: Signal
    may_precharge: Signal
    claimed: Signal

    def __init__(self, *, part: Part, timing: Timing, data_bytes: int) -> None:
        self.timing = timing
        chunk = chunk_layout(part, data_bytes)
        super().__init__(
            {
                "i": In(stream.Signature(chunk)),
                "o": Out(stream.Signature(chunk)),
                "owed": In(1),
                "refreshed": Out(1),
                "command": Out(command_layout(part.row_bits)),
                "grant": In(1),
                "row": Out(part.row_bits),
                "open": In(BANKS),
                "hit": In(BANKS),
                "may_activate": In(BANKS),
                "may_precharge": In(BANKS),
                "claimed": In(BANKS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timing = self.timing
        place = self.o.payload.place
        # Cycles until what was begun (a precharge, an activation, a refresh) is over.
        left = Signal(range(max(timing.rp, timing.rcd, timing.rfc)))
        m.d.sync += left.eq(Mux(left == 0, 0, left - 1))

        def of_bank(states: Value) -> Value:
            return states.bit_select(place.bank, 1)

        m.d.comb += [
            self.row.eq(place.row),
            self.command.command.eq(Command.DESELECT),
            self.command.bank.eq(place.bank),
            self.command.address.eq(place.row),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(~self.owed)
                m.d.sync += self.o.payload.eq(self.i.payload)
                with m.If(self.owed):
                    m.next = "DRAIN"
                with m.Elif(self.i.valid):
                    m.next = "LOOK"
            with m.State("LOOK"):
                with m.If(~of_bank(self.open)):
                    m.next = "OPEN"
                with m.Elif(of_bank(self.hit)):
                    m.next = "READY"
                with m.Else():
                    m.next = "CLOSE"
            with m.State("CLOSE"):
                with m.If(of_bank(self.may_precharge & ~self.claimed)):
                    m.d.comb += [
                        self.command.command.eq(Command.PRECHARGE),
                        self.command.address.eq(0),
                    ]
                    with m.If(self.grant):
                        m.d.sync += left.eq(timing.rp - 1)
                        m.next = "OPEN"
            with m.State("OPEN"):
                with m.If(of_bank(self.may_activate) & (left == 0)):
                    m.d.comb += self.command.command.eq(Command.ACTIVATE)
                    with m.If(self.grant):
                        m.d.sync += left.eq(max(timing.rcd - 2, 0))
                        m.next = "READY"
            with m.State("READY"):
                m.d.comb += self.o.valid.eq(left == 0)
                with m.If(self.o.valid & self.o.ready):
                    m.next = "IDLE"
            with m.State("DRAIN"):
                with m.If(self.may_precharge.all() & (self.claimed == 0) & (left == 0)):
                    m.d.comb += [
                        self.command.command.eq(Command.PRECHARGE),
                        self.command.address.eq(ALL_BANKS),
                    ]
                    with m.If(self.grant):
                        m.d.sync += left.eq(timing.rp - 1)
                        m.next = "REFRESH"
            with m.State("REFRESH"):
                with m.If(self.may_activate.all() & (left == 0)):
                    m.d.comb += [
                        self.command.command.eq(Command.REFRESH),
                        self.refreshed.eq(self.grant),
                    ]
                    with m.If(self.grant):
                        m.d.sync += left.eq(timing.rfc - 1)
                        m.next = "IDLE"
        return m
