"""Block memory as a queue, with nothing between the memory and the next register."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from celosia.hw.lib.component import Component
from celosia.hw.memory import race


class Buffer(Component):
    """Queue whose output is a register: a block memory's own takes most of a cycle to show.

    Parameters
    ----------
    width : int
        Bits of an entry.
    depth : int
        Entries there is room for, at least, a power of two; two more may be on their way out.

    Members
    -------
    i, o : In / Out(stream of unsigned(width))
        Both sides.

    Timing
    ------
    One entry each cycle; ``LATENCY`` cycles through an empty queue.
    """

    LATENCY = 3

    def __init__(self, *, width: int, depth: int) -> None:
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth: wanted a power of two, at least 2, got {depth}")
        self.width = width
        self.depth = depth
        entries = stream.Signature(unsigned(width))
        super().__init__({"i": In(entries), "o": Out(entries)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Never read where it is written: then it is empty or full.
        m.submodules.storage = storage = Memory(
            shape=self.width, depth=self.depth, init=[], attrs=race.UNDEFINED
        )
        write, read = storage.write_port(), storage.read_port()
        level = Signal(range(self.depth + 1))
        fetched, moves = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(level != self.depth),
            write.en.eq(self.i.valid & self.i.ready),
            write.data.eq(self.i.payload),
            moves.eq(~self.o.valid | self.o.ready),
            read.en.eq((level != 0) & (~fetched | moves)),
        ]
        m.d.sync += [
            level.eq(level + write.en - read.en),
            write.addr.eq(write.addr + write.en),
            read.addr.eq(read.addr + read.en),
            fetched.eq(read.en | (fetched & ~moves)),
        ]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(fetched), self.o.payload.eq(read.data)]
        return m
