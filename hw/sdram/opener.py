"""Opens the row of the chunk to come while columns of the one before are still read or written."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.countdown import Countdown
from celosia.hw.sdram.signature import ALL_BANKS, BANKS, Command, chunk_layout, command_layout
from celosia.hw.sdram.timing import Part, Timing


class Opener(Component):
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
        What the chip should do, ``DESELECT`` for nothing; it does so in this cycle if the cycle is
        free for it.
    activate, precharge : Out(BANKS)
        Banks that are given this command in this cycle.
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
                "activate": Out(BANKS),
                "precharge": Out(BANKS),
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
        # The row is open for a command two cycles after the chunk was handed over.
        m.submodules.opened = opened = Countdown([max(timing.rcd - 1, 1)])
        m.submodules.idle = idle = Countdown([timing.rp, timing.rfc])
        here = Signal(BANKS)
        # Registered: what a chunk waits for stays true, and changes by its own commands alone.
        may_close, may_open = Signal(), Signal()
        may_close_all, may_refresh = Signal(), Signal()
        closable = self.may_precharge & ~self.claimed
        m.d.comb += here.eq(1 << place.bank)
        m.d.sync += [
            may_close.eq((closable & here).any()),
            may_open.eq((self.may_activate & here).any()),
            may_close_all.eq(closable.all()),
            may_refresh.eq(self.may_activate.all()),
        ]

        activates, closes, closes_all = Signal(), Signal(), Signal()
        m.d.comb += [
            self.activate.eq(Mux(activates, here, 0)),
            self.precharge.eq(Mux(closes, here, 0) | closes_all.replicate(BANKS)),
            opened.start.eq(activates),
            idle.start.eq(Cat(closes | closes_all, self.refreshed)),
            self.row.eq(place.row),
            self.command.bank.eq(place.bank),
            self.command.address.eq(place.row),
            self.command.command.eq(Command.DESELECT),
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
                with m.If(~(self.open & here).any()):
                    m.next = "OPEN"
                with m.Elif((self.hit & here).any()):
                    m.next = "READY"
                with m.Else():
                    m.next = "CLOSE"
            with m.State("READY"):
                m.d.comb += self.o.valid.eq(opened.over)
                with m.If(self.o.valid & self.o.ready):
                    m.next = "IDLE"
            # State, what it waits for, its strobe, command and address, the state after it.
            for name, may, strobe, command, address, after in (
                ("CLOSE", may_close, closes, Command.PRECHARGE, 0, "OPEN"),
                ("OPEN", may_open & idle.over, activates, Command.ACTIVATE, place.row, "READY"),
                (
                    "DRAIN",
                    may_close_all & idle.over,
                    closes_all,
                    Command.PRECHARGE,
                    ALL_BANKS,
                    "REFRESH",
                ),
                ("REFRESH", may_refresh & idle.over, self.refreshed, Command.REFRESH, 0, "IDLE"),
            ):
                with m.State(name):
                    m.d.comb += self.command.address.eq(address)
                    with m.If(may & self.grant):
                        m.d.comb += [strobe.eq(1), self.command.command.eq(command)]
                        m.next = after
        return m
