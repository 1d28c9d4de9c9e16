"""Queues: what goes in comes out once, in order; nobody pushes into a full one."""

import pytest
from amaranth.hdl import Cat, Signal
from amaranth.lib import fifo
from prove import Spec, broken_module, changes, proved, refuted
from queues import Fifo, Pair, in_order

from celosia.hw.lib import queue, skid_buffer


def kept(spec, dut, *, entries, level):
    """Claim that an offer stays, and that what goes in comes out, and nothing else."""
    spec.claim("waits", spec.waits(dut.o.valid, dut.o.ready, dut.o.payload))
    inside = Signal(range(len(entries) + 1))
    spec.m.d.sync += inside.eq(inside + (dut.i.valid & dut.i.ready) - (dut.o.valid & dut.o.ready))
    spec.claim("counted", inside == level)
    in_order(
        spec,
        push=dut.i.valid & dut.i.ready,
        value=dut.i.payload,
        pop=dut.o.valid & dut.o.ready,
        front=dut.o.payload,
        entries=entries,
        level=level,
    )
    spec.cover("full", ~dut.i.ready)
    return spec


def skid_buffer_spec(module=skid_buffer, block=None, direct=0):
    spec = Spec()
    dut = spec.open("dut", module.SkidBuffer(8, block=block, direct=direct))
    assert dut.LATENCY == 1
    inside = Pair(spec, "dut", width=8, valid=dut.o.valid, direct=direct)
    for first in range(direct + (block or 8), 8, block or 8):
        copies = [spec.see(f"dut.{name}_{first}", 1) for name in ("valid", "full", "front")]
        same = Cat(*copies) == Cat(dut.o.valid, inside.full, inside.turn)
        spec.claim(f"copies of bit {first}", same)
    spec.claim("front", dut.o.payload == inside.entries[0])
    spec.claim("room", dut.i.ready == ~inside.full)
    spec.claim("idle", dut.idle == (inside.level == 0))
    return kept(spec, dut, entries=inside.entries, level=inside.level)


@pytest.mark.parametrize(("block", "direct"), [(None, 0), (3, 0), (3, 2)])
def test_skid_buffer(block, direct):
    proved(skid_buffer_spec(block=block, direct=direct), depth=1, reach=6)


@changes(
    ("| (valid & ~self.o.ready)", "", "waits"),
    ("(turn ^ valid) == n", "turn == n", "unchanged"),
    ("& valid & ~self.o.ready)", "& valid)", "counted"),
    ("turn ^ (valid & self.o.ready)", "turn ^ self.o.ready", "in order"),
)
@pytest.mark.parametrize("block", [None, 3])
def test_skid_buffer_broken(right, wrong, claim, block):
    refuted(skid_buffer_spec(broken_module(skid_buffer, right, wrong), block), claim, depth=8)


@changes(
    ("Mux(full, slots[1], taken)[:direct]", "taken[:direct]", "in order"),
    ("with m.If(~full):", "with m.If(self.i.valid):", "unchanged"),
    ("with m.If(~self.o.valid | self.o.ready):", "with m.If(self.o.ready):", "unchanged"),
)
def test_direct_bits_broken(right, wrong, claim):
    refuted(skid_buffer_spec(broken_module(skid_buffer, right, wrong), 3, 2), claim, depth=8)


@pytest.mark.parametrize("lost", ["full", "front"])
def test_skid_buffer_of_lost_copies(lost):
    right = "Signal(name=name + suffix,"
    init = f'bool(suffix) and name == "{lost}"'
    broken = broken_module(skid_buffer, right, f"{right} init={init},")
    refuted(skid_buffer_spec(broken, 3), "copies of bit 3", depth=8)


def register_spec(module=skid_buffer):
    spec = Spec()
    dut = spec.open("dut", module.PipelineRegister(8))
    assert dut.LATENCY == 1
    spec.claim("room", dut.i.ready == (~dut.o.valid | dut.o.ready))
    return kept(spec, dut, entries=[dut.o.payload], level=dut.o.valid)


def test_register():
    proved(register_spec(), depth=1, reach=6)


@changes(
    ("self.i.ready.eq(~self.o.valid | self.o.ready)", "self.i.ready.eq(1)", "waits"),
    ("with m.If(self.i.ready):", "with m.If(self.i.valid):", "waits"),
    ("self.i.ready.eq(~self.o.valid | self.o.ready)", "self.i.ready.eq(~self.o.valid)", "room"),
)
def test_register_broken(right, wrong, claim):
    refuted(register_spec(broken_module(skid_buffer, right, wrong)), claim, depth=8)


def fifo_spec(depth, kind):
    spec = Spec()
    m = spec.m
    buffered = kind is not fifo.SyncFIFO
    m.submodules.fifo = dut = kind(width=8, depth=depth)
    m.d.comb += [
        dut.w_data.eq(spec.free("w_data", 8)),
        dut.w_en.eq(spec.free("w_en", 1)),
        dut.r_en.eq(spec.free("r_en", 1)),
    ]
    eager = kind.__name__ == queue.EagerFIFO.__name__
    inside = Fifo(spec, "fifo", width=8, depth=depth, buffered=buffered, eager=eager)
    spec.claim("level", dut.level == inside.level)
    spec.claim("front", dut.r_rdy == (inside.ready if buffered else inside.level != 0))
    # Full, or what came out of an empty queue has not reached the front yet.
    spec.claim("room", dut.w_rdy | (inside.level == depth) | (~dut.r_rdy & (depth == 2)))
    in_order(
        spec,
        push=dut.w_en & dut.w_rdy,
        value=dut.w_data,
        pop=dut.r_en & dut.r_rdy,
        front=dut.r_data,
        entries=inside.entries(dut.r_data),
        level=inside.level,
    )
    spec.cover("full", inside.level == depth)
    if depth > 2:
        spec.cover("around", spec.past(inside.produce, 2) > inside.produce)
    return spec


@pytest.mark.parametrize(
    ("depth", "kind"),
    [
        (2, fifo.SyncFIFOBuffered),
        (3, fifo.SyncFIFOBuffered),
        (4, fifo.SyncFIFOBuffered),
        (4, fifo.SyncFIFO),
        (2, queue.EagerFIFO),
        (3, queue.EagerFIFO),
        (4, queue.EagerFIFO),
        pytest.param(7, fifo.SyncFIFOBuffered, marks=pytest.mark.slow),
        pytest.param(8, fifo.SyncFIFO, marks=pytest.mark.slow),
        pytest.param(16, fifo.SyncFIFOBuffered, marks=pytest.mark.slow),
        pytest.param(9, queue.EagerFIFO, marks=pytest.mark.slow),
    ],
)
def test_fifo(depth, kind):
    proved(fifo_spec(depth, kind), depth=1, reach=depth + 6)


@changes(
    ("self.w_rdy.eq(inner_level != inner_depth)", "self.w_rdy.eq(1)", "fifo: count"),
    ("(~self.r_rdy | self.r_en)", "self.r_en", "fifo: filled"),
    ("r_port.en.eq(do_inner_read)", "r_port.en.eq(1)", "unchanged"),
)
def test_fifo_broken(right, wrong, claim):
    broken = broken_module(fifo, right, wrong)
    refuted(fifo_spec(4, broken.SyncFIFOBuffered), claim, depth=10)


@changes(
    ("pushed.eq(self.w_en & self.w_rdy)", "pushed.eq(self.w_en)", "fifo: count"),
    ("inner_level == words - 1", "inner_level == words", "fifo: full"),
    (") & ~moved)", "))", "fifo: full"),
    ("w_port.en.eq(self.w_rdy)", "w_port.en.eq(1)", "unchanged"),
    ("with m.If(pushed):", "with m.If(self.w_en):", "fifo: count"),
    ("& (~self.r_rdy | self.r_en)", "& self.r_en", "fifo: filled"),
    ("r_port.en.eq(moved)", "r_port.en.eq(1)", "unchanged"),
)
def test_eager_fifo_broken(right, wrong, claim):
    refuted(fifo_spec(4, broken_module(queue, right, wrong).EagerFIFO), claim, depth=10)
