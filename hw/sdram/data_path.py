"""The registers at the pins, and the way between beats and words."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.sdram.signature import DATA_BITS, WORD_BYTES, Command, command_layout, pins
from celosia.hw.sdram.timing import Part, Timing


class DataPath(Component):
    """Drives all pins from registers, sends the words of beats and collects those that come.

    Parameters
    ----------
    part : Part
        The chip.
    timing : Timing
        Its times.
    data_bytes : int
        Bytes of a beat.
    read_delay : int
        Cycles from the edge at which the chip's data sheet has a word to the edge that captures it,
        0 to ``READ_DELAYS``.

    Members
    -------
    command : In(command_layout)
        The command to give, one cycle after ``read`` or ``write``.
    started : In(1)
        Lets go of the byte masks.
    read, write, void : In(1)
        A beat is to be read, to be written; without effect.
    beat, strobe : In(8 * data_bytes), In(data_bytes)
        The beat to write, in the cycle of ``write``.
    valid, data : Out(1), Out(8 * data_bytes)
        Beats read, in order.
    pins : Out(signature.pins)
        The chip's pins.

    Timing
    ------
    A beat read comes ``latency`` cycles after its ``read``. Strobes are at least
    ``data_bytes / WORD_BYTES`` cycles apart.
    """

    def __init__(self, *, part: Part, timing: Timing, data_bytes: int, read_delay: int) -> None:
        self.words = data_bytes // WORD_BYTES
        # Two registers to the pins, the chip, the captures, and the words of the beat.
        self.latency = 4 + timing.cas_latency + read_delay + self.words - 1
        super().__init__(
            {
                "command": In(command_layout(part.row_bits)),
                "started": In(1),
                "read": In(1),
                "write": In(1),
                "void": In(1),
                "beat": In(8 * data_bytes),
                "strobe": In(data_bytes),
                "valid": Out(1),
                "data": Out(8 * data_bytes),
                "pins": Out(pins(part.row_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._commands(m)
        self._writes(m)
        self._reads(m)
        return m

    def _commands(self, m: Module) -> None:
        """Register command and address."""
        out = self.pins
        levels = Signal.like(self.command.command, init=Command.DESELECT)
        m.d.comb += Cat(out.we_n, out.cas_n, out.ras_n, out.cs_n).eq(levels)
        m.d.sync += [
            out.cke.eq(1),
            levels.eq(self.command.command),
            out.ba.eq(self.command.bank),
            out.a.eq(self.command.address),
        ]

    def _writes(self, m: Module) -> None:
        """Send words and masks; the first together with the write command."""
        out = self.pins
        words = Signal.like(self.beat)
        masks = Signal.like(self.strobe)
        driven = Signal(self.words)
        hidden = Signal(WORD_BYTES, init=-1)
        m.d.comb += out.dqm.eq(hidden)
        m.d.sync += [
            words.eq(words[DATA_BITS:]),
            masks.eq(masks[WORD_BYTES:]),
            driven.eq(driven[1:]),
            out.dq_o.eq(words),
            out.dq_oe.eq(driven[0]),
            hidden.eq(Mux(self.started, masks, Const(-1, WORD_BYTES))),
        ]
        with m.If(self.write):
            m.d.sync += [
                words.eq(self.beat),
                masks.eq(Mux(self.void, Const(-1, len(masks)), ~self.strobe)),
                driven.eq(Const(-1, len(driven))),
            ]

    def _reads(self, m: Module) -> None:
        """Capture each cycle's word and collect the last ones."""
        word = Signal(DATA_BITS)
        under_way = Signal(self.latency)
        m.d.sync += [
            word.eq(self.pins.dq_i),
            self.data.eq(Cat(self.data[DATA_BITS:], word)),
            under_way.eq(Cat(self.read, under_way)),
        ]
        m.d.comb += self.valid.eq(under_way[-1])
