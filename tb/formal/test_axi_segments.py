"""Rows cut into bursts: every byte once, in order, no burst across 4 KiB."""

import pytest
from amaranth.hdl import Cat, Const, Mux, Signal, Value, unsigned
from amaranth.lib import data
from prove import Spec, broken_module, proved, refuted

from celosia.hw.bus import segments

BYTES = 4
BEATS = 4
FRAME_AT = 4
PLACE_BITS = 8
EXTENT_BITS = 7

#: A row as it was given; it travels with its bursts, so that each can be judged by itself.
ROW = data.StructLayout(
    {
        "first": unsigned(32),
        "last": unsigned(32),
        "place": unsigned(PLACE_BITS),
        "bad": 1,
        "final": 1,
        "serial": unsigned(2),
    }
)


def ends_row(row, frame):
    return row.bad | (frame == row.last[FRAME_AT:])


def legal(burst, place):
    """Return that a burst is that part of its row that lies in its frame."""
    row = burst.tag
    frame = burst.address[FRAME_AT:]
    ends = ends_row(row, frame)
    begins = frame == row.first[FRAME_AT:]
    first = Mux(begins, row.first[:FRAME_AT], 0)
    last = Mux(ends, row.last[:FRAME_AT], (1 << FRAME_AT) - 1)
    last_beat = burst.address[2:FRAME_AT] + burst.beats
    exact = (
        (burst.address[:2] == 0)
        & (last_beat == last[2:])
        & (burst.address[2:12] + burst.beats < 1024)
        & (burst.address[2:FRAME_AT] == first[2:])
        & (burst.first_offset == first[:2])
        & (burst.last_offset == last[:2])
        & (burst.start == begins)
        & (burst.place == place)
        & (frame <= row.last[FRAME_AT:])
    )
    return (
        (burst.bad == row.bad)
        & (burst.final == (ends & row.final))
        & Mux(row.bad, burst.start, exact)
    )


class Part:
    """A burst on its way, or what is left of a row: of which row, where, and whether the last."""

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
        return Mux(earlier.ends, following, same & (self.frame == (earlier.frame + 1)[:28]))


class Sent(Part):
    """The burst that was taken last."""

    def __init__(self, m, out, abort, count):
        row, frame = Signal(ROW), Signal(28)
        super().__init__(1, row, frame, 0)
        self.ends = Signal(init=1)
        self.serial = Signal(2, init=3)
        with m.If(abort):
            m.d.sync += [self.ends.eq(1), self.serial.eq(count - 1)]
        with m.Elif(out.valid & out.ready):
            burst = out.payload
            m.d.sync += [
                row.eq(burst.tag),
                frame.eq(burst.address[FRAME_AT:]),
                self.ends.eq(ends_row(burst.tag, burst.address[FRAME_AT:])),
                self.serial.eq(burst.tag.serial),
            ]


def spec_of(module=segments):
    spec = Spec()
    m = spec.m
    dut = spec.open(
        "dut",
        module.Segmenter(
            data_bytes=BYTES,
            burst_beats=BEATS,
            place_bits=PLACE_BITS,
            extent_bits=EXTENT_BITS,
            tag=ROW,
        ),
    )
    given, out = dut.i.payload, dut.o
    count = Signal(2)
    m.d.sync += count.eq(count + (dut.i.valid & dut.i.ready))
    frames = given.last[FRAME_AT:] - given.first[FRAME_AT:]
    spec.given("a row", given.bad | ((given.first <= given.last) & (frames == given.frames)))
    spec.given("a bad row", ~given.bad | (given.frames == 0))
    for name in ("first", "last", "place", "bad", "final"):
        spec.given(f"tag: {name}", getattr(given.tag, name) == getattr(given, name))
    spec.given("tag: serial", given.tag.serial == count)

    row = dut.row(spec.see("dut.row", dut.row.size))
    frame = spec.see("dut.frame", 28)
    begins = spec.see("dut.begins", 1)
    left = Part(spec.see("dut.busy", 1), row.tag, frame, begins | row.tag.bad)
    held = row.tag
    same = Cat(row.first, row.last, row.place, row.bad, row.final) == Cat(
        held.first, held.last, held.place, held.bad, held.final
    )
    spec.claim("row", ~left.there | same)
    spec.claim("row: ends", ~left.there | (spec.see("dut.ends", 1) == left.ends))
    rest = (row.last[FRAME_AT:] - frame)[: len(row.frames)]
    inside = (frame >= row.first[FRAME_AT:]) & (frame <= row.last[FRAME_AT:])
    exact = inside & (row.frames == rest) & (begins == (frame == row.first[FRAME_AT:]))
    spec.claim("row: frames", ~left.there | Mux(row.bad, begins, exact & (row.first <= row.last)))
    long = row.last[FRAME_AT:] - frame < 1 << len(row.frames)
    spec.claim("row: length", ~left.there | row.bad | long)

    burst = dut.segment(spec.see("dut.middle", dut.segment.size))
    parts: list[Part] = [Sent(m, out, dut.abort, count)]
    for name, part, valid in (
        ("out", out.payload, out.valid),
        ("middle", burst, spec.see("dut.middle_valid", 1)),
    ):
        at = part.tag.place
        if name == "out":
            at = (at + part.address)[:PLACE_BITS]
        spec.claim(f"{name}: legal", ~valid | legal(part, at))
        parts.append(Part(valid, part.tag, part.address[FRAME_AT:], part.start))
    parts.append(left)
    chain(spec, parts, count)
    spec.claim("waits", spec.waits(out.valid, out.ready, out.payload) | spec.past(dut.abort))
    spec.claim("idle", dut.idle == ~Cat(part.there for part in parts[1:]).any())
    spec.cover(
        "three bursts of a second row",
        (
            out.valid
            & ~out.payload.start
            & out.payload.final
            & (frame - row.first[FRAME_AT:] == 3)
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
            spec.claim(
                f"{n} after {parts.index(earlier)}",
                ~(part.there & earlier.there & before) | part.follows(earlier),
            )
            before = before & ~earlier.there
    whole: Value = Const(1, 1)
    for part in reversed(parts):
        newest = (part.ends | (part is parts[-1])) & (part.serial == (count - 1)[:2])
        spec.claim(f"nothing lost at {parts.index(part)}", ~(part.there & whole) | newest)
        whole = whole & ~part.there


def test_segments():
    proved(spec_of(), depth=1, reach=14)


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("ends.eq(row.frames == 1)", "ends.eq(row.frames == 2)", "out: legal"),
        (
            "first = Mux(begins, row.first[:frame_at], 0)",
            "first = row.first[:frame_at]",
            "out: legal",
        ),
        ("out_free.eq(~self.o.valid | self.o.ready)", "out_free.eq(1)", "waits"),
        ("frame.eq(frame + 1)", "frame.eq(frame)", "out: legal"),
        ("(~busy | (middle_free & ends))", "(~busy | ends)", "3 after 2"),
        ("middle.final.eq(ends & row.final)", "middle.final.eq(row.final)", "out: legal"),
        ("middle.place + middle.address", "middle.place + row.first", "out: legal"),
    ],
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(segments, right, wrong)), claim, depth=10)
