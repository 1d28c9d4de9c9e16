"""Port of LiteDRAM narrower than its memory controller."""

from typing import Any

from litedram.common import LiteDRAMNativePort
from litex.gen import LiteXModule
from litex.soc.interconnect.stream import SyncFIFO
from migen import Array, Case, If, Mux, Replicate, Signal

_Module: Any = LiteXModule


class Narrowed(_Module):
    """Port whose words are parts of those of the memory controller.

    Reads of one burst in the same wide word are one command. LiteDRAM's own converter waits for the
    data of each wide word before it requests the next. Each write is one command.

    Parameters
    ----------
    wide : LiteDRAMNativePort
        Port of the memory controller.
    data_width : int
        Bits of a word: half, a quarter, or less, of what the controller has.
    depth : int
        Reads, and writes, between command and data.

    Attributes
    ----------
    port : LiteDRAMNativePort
        The narrow port.
    """

    def __init__(self, wide: Any, data_width: int, depth: int = 16) -> None:
        self.ratio = wide.data_width // data_width
        shift = (self.ratio - 1).bit_length()
        self.port = narrow = LiteDRAMNativePort(
            mode="both", address_width=wide.address_width + shift, data_width=data_width
        )
        self.reads = SyncFIFO([("part", shift), ("new", 1)], depth)
        self.writes = SyncFIFO([("part", shift)], depth)
        command = narrow.cmd
        part, word = command.addr[:shift], command.addr[shift:]
        latest, merges = Signal(len(word)), Signal()
        again, free, taken = Signal(), Signal(), Signal()
        self.comb += [
            again.eq(merges & ~command.we & (word == latest)),
            free.eq(Mux(command.we, self.writes.sink.ready, self.reads.sink.ready)),
            wide.cmd.valid.eq(command.valid & free & ~again),
            wide.cmd.we.eq(command.we),
            wide.cmd.last.eq(command.last),
            wide.cmd.addr.eq(word),
            command.ready.eq(free & (again | wide.cmd.ready)),
            taken.eq(command.valid & command.ready),
            self.reads.sink.valid.eq(taken & ~command.we),
            self.reads.sink.part.eq(part),
            self.reads.sink.new.eq(~again),
            self.writes.sink.valid.eq(taken & command.we),
            self.writes.sink.part.eq(part),
        ]
        self.sync += If(taken & ~command.we, latest.eq(word), merges.eq(~command.last))
        self._write(wide, narrow)
        self._read(wide, narrow, depth)

    def _write(self, wide: Any, narrow: Any) -> None:
        """Write a word to all parts, and enable one."""
        sent, mask = narrow.wdata, len(narrow.wdata.we)
        enable = Array(wide.wdata.we[n * mask :][:mask] for n in range(self.ratio))
        self.comb += [
            wide.wdata.valid.eq(sent.valid),
            wide.wdata.data.eq(Replicate(sent.data, self.ratio)),
            enable[self.writes.source.part].eq(sent.we),
            sent.ready.eq(wide.wdata.ready),
            self.writes.source.ready.eq(sent.valid & sent.ready),
        ]

    def _read(self, wide: Any, narrow: Any, depth: int) -> None:
        """Return a part of a wide word, which the next reads may want as well."""
        self.words = SyncFIFO(wide.rdata.description, depth)
        head, source, got = self.reads.source, self.words.source, narrow.rdata
        held, word = Signal(wide.data_width), Signal(wide.data_width)
        width = narrow.data_width
        parts = {n: got.data.eq(word[n * width :][:width]) for n in range(self.ratio)}
        self.comb += [
            wide.rdata.connect(self.words.sink),
            word.eq(Mux(head.new, source.data, held)),
            Case(head.part, parts),
            got.valid.eq(head.valid & (source.valid | ~head.new)),
            head.ready.eq(got.valid & got.ready),
            source.ready.eq(head.ready & head.new),
        ]
        self.sync += If(source.valid & source.ready, held.eq(source.data))
