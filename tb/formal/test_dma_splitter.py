"""Rows split into bursts: every byte once, in order, no burst across 4 KiB."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value, unsigned
from amaranth.lib import data
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.dma import splitter

BYTES = 4
BEATS = 4
FRAME_AT = 4
LOCAL_BITS = 8
EXTENT_BITS = 7
LIMIT = 100

#: A block of one row. It travels with its bursts, so that each is checked by itself.
ROW = data.StructLayout(
    {
        "external": unsigned(32),
        "extent": unsigned(EXTENT_BITS),
        "local": unsigned(LOCAL_BITS),
        "bad": 1,
        "serial": unsigned(2),
    }
)


def end_of(row):
    return (row.external + row.extent)[:33]


def is_bad(row):
    return row.bad | (row.local + row.extent >= LIMIT)


def frame_of(burst):
    """Return the frame of a burst; one past 2**32 is an error in the midst of its row."""
    return Cat(burst.address[FRAME_AT:], burst.bad & ~burst.start)


def ends_row(row, frame):
    return is_bad(row) | frame[28] | (frame == end_of(row)[FRAME_AT:])


def legal(burst):
    """Return that a burst is that part of its row that lies in its frame."""
    row = burst.tag
    frame = frame_of(burst)
    ends = ends_row(row, frame)
    begins = frame == row.external[FRAME_AT:]
    first = Mux(begins, row.external[:FRAME_AT], 0)
    last = Mux(ends, end_of(row)[:FRAME_AT], (1 << FRAME_AT) - 1)
    last_beat = burst.address[2:FRAME_AT] + burst.beats
    exact = (
        (burst.address[:2] == 0)
        & (last_beat == last[2:])
        & (burst.address[2:12] + burst.beats < 1024)
        & (burst.address[2:FRAME_AT] == first[2:])
        & (burst.first_offset == first[:2])
        & (burst.last_offset == last[:2])
        & (burst.start == begins)
        & (burst.local == (row.local - row.external[:2])[:LOCAL_BITS])
        & (frame <= end_of(row)[FRAME_AT:])
    )
    past = ~burst.start & end_of(row)[32] & (burst.address[FRAME_AT:] == 0)
    return (burst.final == ends) & Mux(
        is_bad(row), burst.bad & burst.start, Mux(burst.bad, past, exact)
    )


class Part:
    """A burst, or the bursts of a row to come: of which row, where, and if it is the last."""

    def __init__(self, there, row, frame, begins):
        self.there = there
        self.row = row
        self.frame = frame
        self.begins = begins
        self.serial = row.serial
        self.ends = ends_row(row, frame)

    def follows(self, earlier):
        """Return that this is what comes next."""
        same = (Value.cast(self.row) == Value.cast(earlier.row)) & ~self.begins
        following = self.begins & (self.serial == (earlier.serial + 1)[:2])
        return Mux(earlier.ends, following, same & (self.frame == (earlier.frame + 1)[:29]))


class Sent(Part):
    """The burst that was taken last."""

    def __init__(self, m, out, abort, count):
        row, frame = Signal(ROW), Signal(29)
        super().__init__(1, row, frame, 0)
        self.ends = Signal(init=1)
        self.serial = Signal(2, init=3)
        with m.If(abort):
            m.d.sync += [self.ends.eq(1), self.serial.eq(count - 1)]
        with m.Elif(out.valid & out.ready):
            burst = out.payload
            m.d.sync += [
                row.eq(burst.tag),
                frame.eq(frame_of(burst)),
                self.ends.eq(ends_row(burst.tag, frame_of(burst))),
                self.serial.eq(burst.tag.serial),
            ]


def spec_of(module=splitter):
    spec = Spec()
    m = spec.m
    dut = spec.open(
        "dut",
        module.BurstSplitter(
            data_bytes=BYTES,
            burst_beats=BEATS,
            local_bits=LOCAL_BITS,
            extent_bits=EXTENT_BITS,
            limits=[LIMIT],
            tag=ROW,
        ),
    )
    given, out = dut.i.payload, dut.o
    count = Signal(2)
    m.d.sync += count.eq(count + (dut.i.valid & dut.i.ready))
    spec.given("one row", given.rows == 1)
    for name in ("external", "extent", "local", "bad"):
        spec.given(f"tag: {name}", getattr(given.tag, name) == getattr(given, name))
    spec.given("tag: serial", given.tag.serial == count)

    block = dut.block(spec.see("dut.block", dut.block.size))
    busy = spec.see("dut.busy", 1)
    fields = Cat(block.external, block.extent, block.local, block.bad)
    same = fields == Value.cast(block.tag)[:-2]
    spec.claim("block", ~busy | (same & (block.rows == 1) & ~spec.see("dut.beyond", 1)))

    row = dut.row(spec.see("dut.row", dut.row.size))
    begins = spec.see("dut.begins", 1)
    active = spec.see("dut.active", 1)
    bad = spec.see("dut.bad", 1)
    low = spec.see("dut.frame", 28)
    frame = Signal(29)
    m.d.comb += frame.eq(Cat(low, bad & ~begins))
    end = end_of(row.tag)
    inside = (frame >= row.tag.external[FRAME_AT:]) & (frame <= end[FRAME_AT:])
    exact = inside & (begins == (frame == row.tag.external[FRAME_AT:]))
    spec.claim("row: bursts", ~active | Mux(is_bad(row.tag), begins, exact))
    ends = (row.first == row.tag.external[:FRAME_AT]) & (row.last == end[: len(row.last)])
    local = row.local == (row.tag.local - row.tag.external[:2])[:LOCAL_BITS]
    spec.claim("row: ends", ~active | (ends & local & row.final))
    left = spec.see("dut.left", dut.further.width)
    closes = spec.see("dut.closes", 1)
    follow = (left == (end[FRAME_AT:] - frame)[: len(left)]) & (closes == (left == 0))
    spec.claim("row: left", ~active | bad | follow)
    spec.claim("row: bad", ~active | Mux(begins, bad == is_bad(row.tag), ~bad | (low == 0)))
    spec.claim("bad of a row alone", ~bad | spec.past(bad | active | busy))

    spec.claim("legal", ~out.valid | legal(out.payload))
    held = Part(busy, block.tag, Cat(block.tag.external[FRAME_AT:], Const(0, 1)), 1)
    parts: list[Part] = [
        Sent(m, out, dut.abort, count),
        Part(out.valid, out.payload.tag, frame_of(out.payload), out.payload.start),
        held,
    ]
    chain(spec, parts, count)
    spec.claim("waits", spec.waits(out.valid, out.ready, out.payload) | spec.past(dut.abort))
    spec.claim("idle", dut.idle == ~(out.valid | busy))
    spec.claim("nothing after a bad row", ~spec.past(bad) | bad)
    spec.cover(
        "three bursts of a second row",
        (
            out.valid
            & ~out.payload.start
            & out.payload.final
            & (frame - row.tag.external[FRAME_AT:] == 3)
            & (out.payload.tag.serial == 1)
            & ~out.payload.bad
        ),
    )
    return spec


def chain(spec, parts, count):
    """Claim that each part follows the one before, and that the last ends the newest row."""
    for n, part in enumerate(parts[1:], 1):
        before: Value = Const(1, 1)
        for earlier in reversed(parts[:n]):
            # A row in progress ends with the burst of its last frame.
            follows = part.follows(earlier) if n == 1 else part.serial == (earlier.serial + 1)[:2]
            spec.claim(
                f"{n} after {parts.index(earlier)}",
                ~(part.there & earlier.there & before) | follows,
            )
            before = before & ~earlier.there
    whole: Value = Const(1, 1)
    for part in reversed(parts):
        newest = part.serial == (count - 1)[:2]
        spec.claim(f"nothing lost at {parts.index(part)}", ~(part.there & whole) | newest)
        whole = whole & ~part.there
    spec.claim("ended", parts[1].there | parts[0].ends)


def test_splitter():
    proved(spec_of(), depth=1, reach=14)


@changes(
    ("closes.eq(left == 1)", "closes.eq(left == 2)", "row: left"),
    ("first = Mux(begins, row.first, 0)", "first = row.first", "legal"),
    ("with m.If(self.o.ready):", "with m.If(1):", "waits"),
    ("following = frame + 1", "following = frame + 0", "1 after 0"),
    ("(~active | (self.o.ready & ends))", "(~active | self.o.ready)", "1 after 0"),
    ("burst.final.eq(ends & row.final)", "burst.final.eq(row.final)", "legal"),
    ("block.local - block.external[: self.beat_at]", "block.local", "row: ends"),
    (">= limit", "> limit", "row: bad"),
    ("bad.eq(following[-1])", "bad.eq(0)", "1 after 0"),
    ("with m.Elif(active):", "with m.Else():", "bad of a row alone"),
    ("busy & ~bad &", "busy &", "nothing after a bad row"),
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(splitter, right, wrong)), claim, depth=10)
