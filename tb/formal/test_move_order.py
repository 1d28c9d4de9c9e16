"""Order of MOVE_WEIGHTS and tiles: no tile misses a row, no row overtakes a tile."""

import pytest
from amaranth.hdl import Cat, Mux, Signal
from prove import Spec, broken_module, changes, proved, refuted

from celosia.hw.matrix import moves
from celosia.hw.memory.weight_buffer import WeightBuffer

LATENCY = 6


def spec_of(module=moves, rows=8, columns=16):
    spec = Spec()
    m = spec.m
    dut = spec.open("dut", module.MoveOrder(rows=rows, columns=columns, read_latency=LATENCY))
    which = spec.free("which", range(rows), fixed=True)
    most = dut.MOST
    begun = Signal(range(most + 1))
    # Cycles since a request of the chosen row, and since the start of a tile; the greatest: never.
    moved = Signal(4, init=15)
    started = Signal(range(columns + 1), init=columns)
    request = dut.fired & (dut.row == which)
    m.d.sync += [
        begun.eq(begun + dut.begin - (dut.fired & dut.final)),
        moved.eq(Mux(request, 1, moved + (moved != 15))),
        started.eq(Mux(dut.start, 1, started + (started != columns))),
    ]
    spec.given("capacity", ~dut.begin | (begun != most))
    spec.given("only of an instruction that has begun", ~dut.fired | (begun != 0))
    spec.given("obeys", ~(dut.start & dut.hold))

    spec.claim("counted from 1", (moved != 0) & (started != 0) & (started <= columns))
    spec.claim("begun", spec.see("dut.begun", len(begun)) == begun)
    spec.claim("waits for all requests", (begun == 0) | dut.hold)
    # Cycles from the request until a tile that starts has the row.
    there = LATENCY + WeightBuffer.ROW_LATENCY - which
    spec.claim("no tile misses a row", dut.hold | (moved >= there))
    landing = spec.see("dut.landing", LATENCY + WeightBuffer.ROW_LATENCY - 1)
    waits = Cat(landing[c] | (moved + c >= there) for c in range(len(landing)))
    spec.claim("rows under way", waits.all())
    # A row is written LATENCY cycles after its request; row 0 is the first.
    spec.claim("no row overtakes a tile", ~dut.settled | (started + LATENCY >= columns))
    if columns > LATENCY + 1:
        left = spec.see("dut.left", range(columns - LATENCY))
        spec.claim("left", left + started >= columns - LATENCY)
        spec.claim("no longer than needed", (left == 0) | (left + started == columns - LATENCY))
    spec.cover("a tile starts before the last row has landed", dut.start & (moved < LATENCY))
    spec.cover("three at once", begun == most)
    return spec


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (4, 8), (8, 16), (16, 16)])
def test_move_order(rows, columns):
    proved(spec_of(rows=rows, columns=columns), depth=1, reach=20)


@changes(
    ("begun + self.begin - (self.fired & self.final)", "begun | self.begin", "begun"),
    ("(begun != 0) | landing[0]", "(begun > 1) | landing[0]", "waits for all requests"),
    ("(begun != 0) | landing[0]", "(begun != 0) | landing[1]", "no tile misses a row"),
    ("self.row < len(landing) - c", "self.row + 1 < len(landing) - c", "rows under way"),
    ("landing[1:] | Mux(self.fired, blocked, 0)", "landing[1:]", "no tile misses a row"),
    ("left.eq(cycles - 1)", "left.eq(cycles - 2)", "no row overtakes a tile"),
    ("left.eq(left - 1)", "left.eq(left)", "no longer than needed"),
)
def test_broken(right, wrong, claim):
    refuted(spec_of(broken_module(moves, right, wrong)), claim, depth=24)
