"""Reader of programs: the checked words of a program, or its first error."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.arch.registers import LENGTH_BITS
from celosia.hw.axi.reader import length_bits, read_beat
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.sequencer.check import CHECKED, Check
from celosia.hw.sequencer.fetch import Fetch


class ProgramReader(Component):
    """Reader of a program: fetches its words, checks them, and stops at the first error.

    Parameters
    ----------
    config : Config
        Sizes of the core.

    Members
    -------
    begin, address, length : In(1), In(ADDRESS_BITS), In(32)
        Starts a program; ``length`` is there a cycle earlier. A length of ``2**LENGTH_BITS`` or
        more counts as 0: a program without an end.
    stop, idle : In(1), Out(1)
        As in ``Fetch``.
    flush : In(1)
        Reset, before the next program.
    request, beats : Out(stream of ``streams.burst``), In(stream of ``read_beat``)
        Client of ``ReadMaster``.
    o : Out(stream of CHECKED)
        Words without an error.
    fault : Out(1)
        The next word has an error, or no word was left in the cycle before. From the cycle after
        ``begin`` on.
    code, index : Out(isa.Error), Out(INDEX_BITS)
        With ``fault``: the error, and the index of its instruction.

    Timing
    ------
    As in ``Fetch`` and ``Check``.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        burst = streams.burst(length_bits=length_bits(config.burst_beats))
        self.begin = In(1)
        self.address = In(ADDRESS_BITS)
        self.length = In(32)
        self.stop = In(1)
        self.flush = In(1)
        self.request = Out(stream.Signature(burst))
        self.beats = In(stream.Signature(read_beat(config.bus_bytes)))
        self.o = Out(stream.Signature(CHECKED))
        self.fault = Out(1)
        self.code = Out(isa.Error)
        self.index = Out(streams.INDEX_BITS)
        self.idle = Out(1)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fetch = Fetch(
            bus_bytes=self.config.bus_bytes,
            burst_beats=self.config.burst_beats,
            lut_memories=self.config.lut_memories,
            ahead=self.config.program_blocks,
        )
        check = Check(config=self.config)
        m.submodules.fetch = ResetInserter(self.flush)(fetch)
        m.submodules.check = ResetInserter(self.flush)(check)
        wiring.connect(m, wiring.flipped(self.request), fetch.request)
        wiring.connect(m, fetch.beats, wiring.flipped(self.beats))
        wiring.connect(m, fetch.words, check.i)
        word = check.o.payload
        ran_out = Signal()
        length = Signal(LENGTH_BITS, reset_less=True)
        # A cycle late, after the last word has left.
        m.d.sync += ran_out.eq(fetch.exhausted & check.empty & ~self.begin)
        m.d.sync += length.eq(Mux(self.length[LENGTH_BITS:].any(), 0, self.length))
        good = word.good
        bad = Signal()
        m.d.comb += [
            fetch.begin.eq(self.begin),
            fetch.address.eq(self.address),
            fetch.length.eq(length),
            fetch.stop.eq(self.stop),
            self.idle.eq(fetch.idle),
            self.o.valid.eq(check.o.valid & good),
            self.o.payload.eq(word),
            check.o.ready.eq(self.o.ready & good),
            bad.eq(check.o.valid & ~good),
            self.fault.eq(bad | ran_out),
            self.code.eq(Mux(bad, word.error, isa.Error.PROGRAM)),
            self.index.eq(Mux(ran_out, check.index, word.index)),
        ]
        return m
