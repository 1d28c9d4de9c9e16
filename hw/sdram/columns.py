"""Column commands: one for each beat, back to back."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.countdown import Countdown
from celosia.hw.sdram.signature import BANKS, WORD_BYTES, Command, chunk_layout, command_layout
from celosia.hw.sdram.timing import Part, Timing


class Columns(Component):
    """Reads or writes the beats of chunks whose rows are open.

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
        Chunks.
    command : Out(command_layout)
        What the chip does in this cycle, if anything.
    read, write, void : Out(1)
        A beat is read, is written, in this cycle; it is of a void chunk. If neither, the cycle is
        free.
    claimed : Out(BANKS)
        The bank that beats are left for.

    Timing
    ------
    A command every ``data_bytes / WORD_BYTES`` cycles while chunks come, across chunks too, and a
    pause between the last read and the first write.
    """

    def __init__(self, *, part: Part, timing: Timing, data_bytes: int) -> None:
        self.part = part
        self.timing = timing
        self.words = data_bytes // WORD_BYTES
        self.chunk = chunk_layout(part, data_bytes)
        super().__init__(
            {
                "i": In(stream.Signature(self.chunk)),
                "command": Out(command_layout(part.row_bits)),
                "read": Out(1),
                "write": Out(1),
                "void": Out(1),
                "claimed": Out(BANKS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        turn_cycles = self.timing.read_to_write(self.words)
        m.submodules.gap = gap = Countdown([self.words])
        m.submodules.turn = turn = Countdown([turn_cycles])
        chunk = Signal(self.chunk)
        busy = Signal()
        go = Signal()
        m.d.comb += [
            self.i.ready.eq(~busy),
            gap.start.eq(go),
            turn.start.eq(self.read),
            go.eq(busy & gap.over & (~chunk.write | turn.over)),
            self.read.eq(go & ~chunk.write),
            self.write.eq(go & chunk.write),
            self.void.eq(chunk.void),
            self.claimed.eq(Mux(busy, 1 << chunk.place.bank, 0)),
            self.command.command.eq(Mux(chunk.write, Command.WRITE, Command.READ)),
            self.command.bank.eq(chunk.place.bank),
            self.command.address.eq(Cat(Const(0, range(self.words)), chunk.place.column)),
        ]
        with m.If(go):
            m.d.sync += [
                chunk.place.column.eq(chunk.place.column + 1),
                chunk.beats.eq(chunk.beats - 1),
                busy.eq(chunk.beats != 0),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [chunk.eq(self.i.payload), busy.eq(1)]
        return m
