"""Queue for wide entries."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory

from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers

#: Cycles from a push into an empty ``SyncFIFOBuffered`` until its entry is there.
QUEUE_LATENCY = 2


class EagerFIFO(SyncFIFOBuffered):
    """``SyncFIFOBuffered`` that writes its input in every cycle while it has space.

    ``w_data`` is stored after the last entry in each cycle; ``w_en`` only makes it an entry. So a
    late ``w_en`` reaches a pointer, and none of the memory's write enables.

    Parameters
    ----------
    width : int
        Bits of an entry.
    depth : int
        Entries, at least 2.
    in_luts : bool
        Keep entries in LUTs, whose outputs are ten times as fast as those of a block memory. Not
        every FPGA family has such memories.

    Members
    -------
    As for ``amaranth.lib.fifo.FIFOInterface``.

    Timing
    ------
    As for ``SyncFIFOBuffered``: an entry is there ``QUEUE_LATENCY`` cycles after it was pushed into
    an empty queue.

    Raises
    ------
    ValueError
        If ``depth`` is below 2.
    """

    level: Signal

    def __init__(self, *, width: int, depth: int, in_luts: bool = False) -> None:
        if depth < 2:
            raise ValueError(f"depth: wanted at least 2, got {depth}")
        self.attrs: Any = race.UNDEFINED | ({"ram_style": "distributed"} if in_luts else {})
        super().__init__(width=width, depth=depth)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = self.depth - 1
        # A full queue writes nothing and an empty one reads nothing, so no read meets a write.
        m.submodules.storage = storage = Memory(
            shape=self.width, depth=words, init=[], attrs=self.attrs
        )
        w_port = storage.write_port()
        r_port = storage.read_port(domain="sync")
        produce = Signal(range(words))
        consume = Signal(range(words))
        inner_level = Signal(range(words + 1))
        full = Signal()
        pushed = Signal()
        moved = Signal()

        def following(index: Signal) -> Value:
            # An index of all values of its bits wraps by itself.
            return index + 1 if words == 1 << len(index) else Mux(index == words - 1, 0, index + 1)

        m.d.comb += [
            self.w_rdy.eq(~full),
            pushed.eq(self.w_en & self.w_rdy),
            moved.eq((inner_level != 0) & (~self.r_rdy | self.r_en)),
            w_port.en.eq(self.w_rdy),
            w_port.addr.eq(produce),
            w_port.data.eq(self.w_data),
            r_port.en.eq(moved),
            r_port.addr.eq(consume),
            self.r_data.eq(r_port.data),
            self.level.eq(inner_level + self.r_rdy),
            self.w_level.eq(self.level),
            self.r_level.eq(self.level),
        ]
        # `full` is a register, so that no logic delays `w_rdy`.
        m.d.sync += [
            inner_level.eq(inner_level + pushed - moved),
            full.eq((full | (pushed & (inner_level == words - 1))) & ~moved),
        ]
        with m.If(pushed):
            m.d.sync += produce.eq(following(produce))
        with m.If(moved):
            m.d.sync += [consume.eq(following(consume)), self.r_rdy.eq(1)]
        with m.Elif(self.r_en):
            m.d.sync += self.r_rdy.eq(0)
        return m


class RegisteredFIFO(Component):
    """Queue in a block memory with registers before and after it, which has no ``full``.

    The output of a block memory takes half a cycle of 100 MHz. An entry passes the memory only
    while the register after it is taken.

    Parameters
    ----------
    width : int
        Bits of an entry.
    depth : int
        Entries in the memory, at least 2. Never push into a queue that holds so many.
    copies, shared : int
        Further copies of ``r_rdy`` and of the first ``shared`` bits of ``r_data``.

    Members
    -------
    w_en, w_data : In(1), In(width)
        An entry is pushed.
    r_en, r_data, r_rdy : In(1), Out(width), Out(1)
        The oldest entry leaves if there is one.
    heads : Out(ArrayLayout(shared + 1, copies))
        The copies: ``r_rdy``, then bits of ``r_data``.

    Timing
    ------
    An entry is there ``QUEUE_LATENCY`` cycles after it was pushed into an empty queue, and at most
    two cycles later after others.
    """

    def __init__(self, *, width: int, depth: int, copies: int = 0, shared: int = 0) -> None:
        self.copies = copies
        self.shared = shared
        self.memory = EagerFIFO(width=width, depth=depth)
        self.w_en = In(1)
        self.w_data = In(width)
        self.r_en = In(1)
        self.r_data = Out(width)
        self.r_rdy = Out(1)
        self.heads = Out(data.ArrayLayout(shared + 1, copies))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        [oldest] = data_registers(m, self.r_data, attrs=COPY)
        ready = Signal(attrs=COPY)
        heads = [
            (
                Signal(name=f"ready_{n}", attrs=COPY),
                Signal(self.shared, name=f"head_{n}", attrs=COPY, reset_less=True),
            )
            for n in range(self.copies)
        ]
        m.d.comb += [
            self.r_rdy.eq(ready),
            *(self.heads[n].eq(Cat(head)) for n, head in enumerate(heads)),
        ]
        # Not shared with other queues that get the same word.
        newest = Signal.like(self.w_data, reset_less=True, attrs=COPY)
        pushed = Signal()
        moved = Signal()
        empty = Signal()
        m.d.sync += [newest.eq(self.w_data), pushed.eq(self.w_en)]
        m.d.comb += [
            moved.eq(~self.r_rdy | self.r_en),
            empty.eq(memory.level == 0),
            memory.w_en.eq(pushed & ~(moved & empty)),
            memory.w_data.eq(newest),
            memory.r_en.eq(moved),
        ]
        following = Mux(memory.r_rdy, memory.r_data, newest)
        with m.If(moved):
            m.d.sync += [
                *(r.eq(memory.r_rdy | (pushed & empty)) for r in (ready, *(r for r, _ in heads))),
                *(bits.eq(following) for bits in (oldest, *(bits for _, bits in heads))),
            ]
        return m
