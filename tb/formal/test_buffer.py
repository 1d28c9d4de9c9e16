"""Unified buffer: R lanes in R banks, rows of each lane, and bytes back in lane order."""

import pytest
from amaranth.hdl import Array, Const, Signal
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.memory import unified_buffer

ROWS = 16
BYTES = 1 << 17


def mapped(access, lane, *, rows, unified_bytes):
    """Return bank and row of a lane, and whether it is wanted and lies outside."""
    bits = (rows - 1).bit_length()
    byte = Signal(len(access.address))
    row = Signal(len(access.address) - bits + 1)
    skip = Array(access.skip[i] for i in range(rows))[lane]
    assign = [byte.eq(access.address + lane), row.eq(byte[bits:] + skip)]
    wanted = access.mask.bit_select(lane, 1)
    return byte[:bits], row, wanted, wanted & (row >= unified_bytes // rows), assign


def mapper_spec(module=unified_buffer, *, rows=ROWS, unified_bytes=BYTES):
    spec = Spec()
    m = spec.m
    dut = spec.open(
        "dut", module.BankMapper(rows=rows, unified_bytes=unified_bytes, carried_bits=2)
    )
    m.d.comb += [dut.offsets[n].eq(dut.access.address) for n in range(len(dut.offsets))]
    lane = spec.free("lane", range(rows), fixed=True)
    other = spec.free("other", range(rows), fixed=True)
    size = {"rows": rows, "unified_bytes": unified_bytes}
    bank, row, wanted, outside, assign = mapped(dut.access, lane, **size)
    bank_other, _, _, _, assign_other = mapped(dut.access, other, **size)
    m.d.comb += [*assign, *assign_other]
    late = dut.LATENCY
    spec.claim("R lanes in R banks", (lane == other) | (bank != bank_other))
    mine = spec.past(bank, late)
    valid = spec.past(dut.access_valid, late)
    spec.claim("valid", dut.valid == valid)
    spec.claim("bank of the lane", ~valid | (mine == (lane + dut.offset)[: len(mine)]))
    enable = spec.past(dut.access_valid & wanted & ~outside, late)
    spec.claim("touched where wanted and inside", dut.enable.bit_select(mine, 1) == enable)
    there = Array(dut.row[b] for b in range(rows))[mine]
    spec.claim("row", ~enable | (there == spec.past(row, late)))
    spec.claim("fault where outside", dut.fault | ~spec.past(dut.access_valid & outside, late))
    if rows == 4:
        # Of more lanes one by one is all a solver can see through.
        leaves = Const(0, 1)
        for n in range(rows):
            _, _, _, out, assign = mapped(dut.access, Const(n, range(rows)), **size)
            m.d.comb += assign
            leaves = leaves | out
        spec.claim("fault", dut.fault == spec.past(dut.access_valid & leaves, late))
    spec.claim("carried", dut.carried_out == spec.past(dut.carried, late))
    spec.cover(
        "a lane in a later row",
        spec.past(dut.access.address[:2] == 3, late) & enable & (lane == rows - 1) & (there > 5),
    )
    spec.cover("outside", dut.fault)
    return spec


@pytest.mark.parametrize(("rows", "unified_bytes"), [(4, 4 * 24), (16, BYTES)])
def test_mapper(rows, unified_bytes):
    proved(mapper_spec(rows=rows, unified_bytes=unified_bytes), depth=3, reach=5)


@changes(
    ("carry = b < offset_1", "carry = b <= offset_1", "row"),
    ("before_1 & carry", "before_1", "touched where wanted and inside"),
    (
        "lanes[(i - step) % count], lanes[i]",
        "lanes[(i + step) % count], lanes[i]",
        "touched where wanted and inside",
    ),
    ("+ Cat(carry, skip[b])", "| Cat(carry, skip[b])", "row"),
    ("row[1:] >= self.depth", "row[1:] > self.depth", "fault"),
    ("offset_register.eq(offset_1)", "offset_register.eq(offsets[0])", "bank of the lane"),
)
def test_mapper_broken(right, wrong, claim):
    module = broken_module(unified_buffer, right, wrong)
    refuted(mapper_spec(module, rows=4, unified_bytes=4 * 24), claim, depth=6)


def buffer_spec(module=unified_buffer, *, rows=4, unified_bytes=32):
    """Return claims about one byte of the memory, any, and one lane, any."""
    spec = Spec()
    m = spec.m
    dut = spec.open(
        "dut", module.UnifiedBuffer(rows=rows, unified_bytes=unified_bytes, readers=2, writers=2)
    )
    depth = unified_bytes // rows
    lane = spec.free("lane", range(rows), fixed=True)
    bank_at = spec.free("bank", range(rows), fixed=True)
    row_at = spec.free("row", range(depth), fixed=True)
    # The byte once what was taken so far has been written.
    byte = Signal(8)
    hits = []
    for n in (1, 0):
        port = dut.writes[n]
        taken = port.valid & port.ready
        hit = Const(0, 1)
        for i in range(rows):
            bank, row, wanted, _, assign = mapped(
                port.payload, Const(i, range(rows)), rows=rows, unified_bytes=unified_bytes
            )
            m.d.comb += assign
            here = taken & wanted & (bank == bank_at) & (row == row_at)
            with m.If(here):
                m.d.sync += byte.eq(port.payload.data[i])
            hit = hit | here
        hits.append(hit)
    names = [[f"dut.bank_{b}[{r}]" for r in range(depth)] for b in range(rows)]
    held = Array(Array(spec.see(name, 8) for name in bank) for bank in names)[bank_at][row_at]
    spec.claim("written", held == spec.past(byte, module.UnifiedBuffer.WRITE_LATENCY))

    late = module.UnifiedBuffer.READ_LATENCY
    response = Array(dut.reads[0].data[i] for i in range(rows))[lane]
    taken = []
    for n in range(2):
        port = dut.reads[n].request
        bank, row, wanted, outside, assign = mapped(
            port.payload, lane, rows=rows, unified_bytes=unified_bytes
        )
        m.d.comb += assign
        take = port.valid & port.ready
        taken.append(take)
        spec.claim(f"answer to {n}", dut.reads[n].valid == spec.past(take, late))
        # A byte that is written in the same cycle may be the old one or the new.
        here = take & wanted & (bank == bank_at) & (row == row_at) & ~(hits[0] | hits[1])
        same = response == spec.past(byte, late)
        spec.claim(f"byte read by {n}", ~spec.past(here, late) | same)
        none = spec.past(take & (~wanted | outside), late)
        spec.claim(f"zero where nothing is wanted by {n}", ~none | (response == 0))
        spec.claim(f"fault of {n}", dut.reads[n].fault | ~spec.past(take & outside, late))
        spec.cover(
            f"read by {n}",
            spec.past(here, late)
            & (response == 0x5A)
            & (lane == 2)
            & (spec.past(port.payload.address[:2] == 3, late)),
        )
    spec.claim("one at a time", ~(taken[0] & taken[1]))
    return spec


def test_buffer():
    proved(buffer_spec(), depth=8, reach=12)


@changes(
    ("~offset + 1", "offset", "byte read by 0"),
    ("written.word_select(b, 8)", "written.word_select(count - 1 - b, 8)", "byte read by 0"),
    ("Mux(enable[b], read.data, 0)", "read.data", "zero where nothing is wanted by 0"),
    ("read_valid.eq(valid)", "read_valid.eq(valid | 1)", "answer to 0"),
    ("write.en.eq(to_write.enable[b])", "write.en.eq(to_write.enable.any())", "byte read by 0"),
)
def test_buffer_broken(right, wrong, claim):
    refuted(buffer_spec(broken_module(unified_buffer, right, wrong)), claim, depth=12)
