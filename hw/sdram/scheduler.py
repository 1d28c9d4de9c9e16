"""From chunks to commands: startup, open rows, columns and refreshes."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.bank import Bank
from celosia.hw.sdram.columns import Columns
from celosia.hw.sdram.opener import Opener
from celosia.hw.sdram.signature import (
    BANKS,
    WORD_BYTES,
    Command,
    chunk_layout,
    command_layout,
)
from celosia.hw.sdram.startup import RefreshTimer, Startup
from celosia.hw.sdram.timing import Part, Timing


class Scheduler(Component):
    """Decides each cycle's command. Columns go first, then rows and refreshes.

    Parameters
    ----------
    part : Part
        The chip.
    timing : Timing
        Its times.
    data_bytes : int
        Bytes of a beat: one column command each.

    Members
    -------
    i : In(stream of chunk_layout)
        What to read and write, in this order.
    command : Out(command_layout)
        For the chip, registered.
    read, write, void : Out(1)
        A beat is read, is written; it is of a void chunk. One cycle before ``command`` says so.
    started : Out(1)
        The chip may be used.

    Timing
    ------
    See ``docs/reference/sdram.md``.
    """

    def __init__(self, *, part: Part, timing: Timing, data_bytes: int) -> None:
        self.part = part
        self.timing = timing
        self.data_bytes = data_bytes
        super().__init__(
            {
                "i": In(stream.Signature(chunk_layout(part, data_bytes))),
                "command": Out(command_layout(part.row_bits)),
                "read": Out(1),
                "write": Out(1),
                "void": Out(1),
                "started": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = self.data_bytes // WORD_BYTES
        sizes: dict[str, Any] = {
            "part": self.part,
            "timing": self.timing,
            "data_bytes": self.data_bytes,
        }
        m.submodules.startup = startup = Startup(
            timing=self.timing, row_bits=self.part.row_bits, words=words
        )
        m.submodules.timer = timer = RefreshTimer(interval=self.timing.refresh_interval)
        m.submodules.opener = opener = Opener(**sizes)
        m.submodules.columns = columns = Columns(**sizes)
        wiring.connect(m, opener.o, columns.i)
        m.d.comb += [
            opener.i.payload.eq(self.i.payload),
            opener.i.valid.eq(self.i.valid & startup.done),
            self.i.ready.eq(opener.i.ready & startup.done),
            opener.grant.eq(~(columns.read | columns.write)),
            opener.owed.eq(timer.owed),
            opener.claimed.eq(columns.claimed),
            timer.run.eq(startup.done),
            timer.refreshed.eq(opener.refreshed),
            self.read.eq(columns.read),
            self.write.eq(columns.write),
            self.void.eq(columns.void),
            self.started.eq(startup.done),
        ]

        banks = [
            Bank(timing=self.timing, row_bits=self.part.row_bits, words=words) for _ in range(BANKS)
        ]
        for number, bank in enumerate(banks):
            m.submodules[f"bank_{number}"] = bank
            used = columns.command.bank == number
            m.d.comb += [
                bank.row.eq(opener.row),
                bank.activate.eq(opener.activate[number]),
                bank.precharge.eq(opener.precharge[number]),
                bank.read.eq(columns.read & used),
                bank.write.eq(columns.write & used),
            ]
        for state in ("open", "hit", "may_activate", "may_precharge"):
            m.d.comb += getattr(opener, state).eq(Cat(getattr(bank, state) for bank in banks))

        nothing: Any = {"command": Command.DESELECT, "bank": 0, "address": 0}
        command = Signal(self.command.shape(), init=nothing)
        m.d.comb += self.command.eq(command)
        with m.If(~startup.done):
            m.d.sync += command.eq(startup.command)
        with m.Elif(opener.grant):
            m.d.sync += command.eq(opener.command)
        with m.Else():
            m.d.sync += command.eq(columns.command)
        return m
