"""Reads of the passes: one vector of activations for each pixel of each pass."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring

from celosia.hw import streams
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY
from celosia.hw.lib.skid_buffer import FAR, link
from celosia.hw.matrix.addresses import MATMUL, PassAddresses
from celosia.hw.matrix.sizes import MatrixSizes
from celosia.hw.memory.runs import Runs
from celosia.hw.memory.serial_runs import SerialRuns

#: Outputs of ``PassAddresses`` that belong to a read of any core, besides its request.
_FIELDS = ("row", "accumulate", "first", "last", "final", "outside")


class PassReads(Component):
    """Address generator of the matrix unit: the reads of an instruction, vector by vector.

    ``PassAddresses`` and ``Runs`` give the address and the skips of each vector. While the passes
    of one instruction are read, the skips of the next one are prepared.

    Parameters
    ----------
    sizes : MatrixSizes
        Sizes of the unit.

    Members
    -------
    instruction, tag : In(layout of MATMUL), In(TAG_BITS)
        An instruction.
    prepare : In(1)
        Prepares the skips of ``instruction``.
    ready : Out(1)
        The instruction prepared last may begin.
    begin : In(1)
        ``instruction`` begins in the first cycle in which ``ready`` is high.
    running : Out(1)
        The loops have more reads.
    o : Out(stream of ``PassReads.read``)
        Reads, in order. ``request``: for the unified buffer; ``tag``: of the instruction; the
        other fields as in ``PassAddresses``.

    Timing
    ------
    A register separates the loops from ``o``: the first read comes two cycles after ``begin``,
    then one each cycle. ``ready`` rises log2(rows) + 2 cycles after ``prepare``. With
    ``serial_skips`` it does not wait: the first read comes at least ``rows`` + 2 cycles after
    ``prepare``, two passes begin at least ``rows`` cycles apart, and the register is a plain one.
    """

    def __init__(self, *, sizes: MatrixSizes) -> None:
        self.sizes = sizes
        self.addresses = PassAddresses(sizes=sizes)
        self.addressed = (*_FIELDS, "move", "block") if sizes.blocks else _FIELDS
        request = streams.unified_read(rows=sizes.rows, unified_bytes=sizes.unified_bytes)
        fields = {name: getattr(self.addresses, name).shape() for name in self.addressed}
        # What the control needs at once comes first.
        self.read = data.StructLayout({**fields, "tag": streams.TAG_BITS, "request": request})
        self.direct = self.read.size - request.size
        self.prepare = In(1)
        self.ready = Out(1)
        self.begin = In(1)
        self.instruction = In(MATMUL)
        self.tag = In(streams.TAG_BITS)
        self.running = Out(1)
        self.o = Out(stream.Signature(self.read))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.addresses = addresses = self.addresses
        skip = self.o.payload.request.skip
        sizes = self.sizes
        kind = SerialRuns if sizes.serial_skips else Runs
        m.submodules.runs = runs = kind(
            lanes=sizes.rows, count_bits=sizes.taps_bits, row_bits=len(skip[0])
        )
        skid = sizes.skid and not sizes.serial_skips
        m.submodules.register = register = link(self.read, skid=skid, block=FAR, direct=self.direct)
        wiring.connect(m, register.o, wiring.flipped(self.o))
        # Equal registers: for the addresses, for the skips, and for the rest.
        running, moves, steps = copies = [
            Signal(name=name, attrs=COPY) for name in ("running", "moves", "steps")
        ]
        prepared = Signal()
        known = Signal()
        taken = Signal()
        ends = Signal()
        begins = Signal()
        tag = Signal(streams.TAG_BITS, reset_less=True)
        read = register.i.payload
        run = self.instruction.run
        m.d.comb += [
            self.running.eq(running),
            register.i.valid.eq(running & known),
            taken.eq(register.i.valid & register.i.ready),
            ends.eq(taken & addresses.final),
            self.ready.eq(prepared & (~running | ends)),
            addresses.idle.eq(~moves | addresses.final),
            runs.start.eq(self.prepare),
            # A `run` above all numbers of taps becomes the greatest value.
            runs.run.eq(Mux(run[sizes.taps_bits :].any(), -1, run)),
            runs.skip_rows.eq(self.instruction.skip),
            begins.eq(self.begin & self.ready),
            addresses.begin.eq(self.begin & prepared),
            addresses.instruction.eq(self.instruction),
            addresses.advance.eq(~moves | (known & register.i.ready)),
            read.request.address.eq(addresses.address),
            read.request.mask.eq(addresses.mask),
            read.tag.eq(tag),
            *(read[name].eq(getattr(addresses, name)) for name in self.addressed),
        ]
        if isinstance(runs, Runs):
            stepped = Signal()
            m.d.comb += [
                prepared.eq(runs.ready),
                known.eq(1),
                # As `begins` and `taken`: `space` of the register is near the skips.
                stepped.eq(steps & register.space),
                runs.restart.eq(self.begin & prepared & (~steps | (stepped & addresses.final))),
                runs.advance.eq(stepped & addresses.last),
                read.request.skip.eq(runs.skip),
            ]
        else:
            # The skips change with the register: `runs` holds them instead.
            m.d.comb += [
                prepared.eq(1),
                known.eq(~addresses.first | runs.valid),
                runs.step.eq(taken & addresses.first),
                runs.closing.eq(addresses.closing),
                skip.eq(runs.skip),
            ]
        with m.If(begins):
            m.d.sync += [*(copy.eq(1) for copy in copies), tag.eq(self.tag)]
        with m.Elif(ends):
            m.d.sync += [copy.eq(0) for copy in copies]
        return m
