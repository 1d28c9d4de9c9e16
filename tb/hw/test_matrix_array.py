"""The systolic array, driven by the contract in its docstring, against matrix products."""

import numpy as np
import pysim
import pytest

from celosia.hw.matrix.array import SystolicArray, row_cells
from celosia.hw.matrix.cell import LogicCell, PairCell, SingleCell


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (4, 0), (-1, 1)])
def test_empty_arrays_are_refused(rows, columns):
    wanted = f"^rows, columns: wanted at least 1, got {rows}, {columns}$"
    with pytest.raises(ValueError, match=wanted):
        SystolicArray(rows=rows, columns=columns)


@pytest.mark.parametrize("weight_rows", [0, 3, 8, -1])
def test_segments_that_do_not_divide_the_rows_are_refused(weight_rows):
    wanted = f"^weight_rows: wanted a divisor of rows = 4, got {weight_rows}$"
    with pytest.raises(ValueError, match=wanted):
        SystolicArray(rows=4, columns=2, weight_rows=weight_rows)


@pytest.mark.parametrize(("rows", "sum_bits"), [(1, 16), (2, 17), (4, 18), (5, 19), (16, 20)])
def test_construction(rows, sum_bits):
    array = SystolicArray(rows=rows, columns=3, dsp_columns=2)
    assert (array.rows, array.columns, array.weight_rows) == (rows, 3, 1)
    assert array.kinds == [SingleCell, SingleCell, LogicCell]
    assert array.sum_bits == sum_bits and array.latency == rows + 2


@pytest.mark.parametrize(
    ("cells", "dsp_columns", "wanted"),
    [
        ("portable", 0, [LogicCell] * 5),
        ("portable", 5, [SingleCell] * 5),
        ("pair", 4, [PairCell] * 2 + [LogicCell]),
        ("pair", 5, [PairCell] * 2 + [LogicCell]),
        ("pair", 1, [LogicCell] * 5),
    ],
)
def test_kinds_of_a_row(cells, dsp_columns, wanted):
    assert row_cells(columns=5, dsp_columns=dsp_columns, cells=cells) == wanted


def test_unknown_cells_are_refused():
    with pytest.raises(ValueError, match="^cells: wanted one of portable, .*, got 'abacus'$"):
        SystolicArray(rows=4, columns=2, cells="abacus")


def play(array, activations, switches, loads, weights):
    """Return ``sums`` of each cycle. All inputs have the cycle as their first axis.

    Weights are those of the cycle in which they load; they come a cycle before.
    """
    sums = []

    async def bench(ctx):
        ctx.set(array.weights, weights[0].tolist())
        await ctx.tick()
        for cycle in range(len(activations)):
            ctx.set(array.activations, activations[cycle].tolist())
            ctx.set(array.switch, int(switches[cycle]))
            ctx.set(array.load, int(loads[cycle] @ (1 << np.arange(array.rows))))
            if cycle + 1 < len(weights):
                ctx.set(array.weights, weights[cycle + 1].tolist())
            sums.append([ctx.get(array.sums[j]) for j in range(array.columns)])
            await ctx.tick()

    pysim.run(array, bench)
    return np.array(sums)


class Stimulus:
    """Tiles that replace one another while activations never pause.

    Row ``r`` of a tile may load from ``r`` cycles after the switch before until just before the
    one that makes it active reaches the row: ``moment`` picks a cycle of those.
    """

    def __init__(self, array, rng, switches, moment, cycles, extremes=False):
        shape = (cycles, array.rows)
        self.tail = array.rows + array.columns
        self.switches = np.zeros(cycles, bool)
        self.switches[switches] = True
        self.loads = np.zeros(shape, int)
        # Where nothing loads, the buses carry noise.
        bus = (cycles + self.tail, array.weight_rows, array.columns)
        self.weights = rng.integers(-128, 128, bus)
        if extremes:
            self.activations = rng.choice([-128, 127], shape)
            self.tiles = rng.choice([-128, 127], (len(switches), array.rows, array.columns))
        else:
            self.activations = rng.integers(-128, 128, shape)
            self.tiles = rng.integers(-128, 128, (len(switches), array.rows, array.columns))
        for n, (tile, switch) in enumerate(zip(self.tiles, switches, strict=True)):
            begin = switches[n - 1] if n else 0
            self._load(array, tile, begin, switch, moment)
        active = np.cumsum(self.switches) - self.switches
        self.sums = np.zeros((cycles, array.columns), int)
        for cycle in range(cycles):
            if active[cycle]:
                self.sums[cycle] = self.activations[cycle] @ self.tiles[active[cycle] - 1]

    def _load(self, array, tile, begin, switch, moment):
        taken = set()
        for r in range(array.rows):
            segment = r * array.weight_rows // array.rows
            first, last = begin + r, switch + r - 1
            cycle = {"first": first, "last": last, "middle": (first + last) // 2}[moment]
            assert (segment, cycle) not in taken, "two rows of a segment in one cycle"
            taken.add((segment, cycle))
            self.loads[cycle, r] = 1
            for j in range(array.columns):
                self.weights[cycle + j, segment, j] = tile[r, j]


SHAPES = [(4, 4, 1), (4, 3, 4), (8, 2, 2), (1, 1, 1), (3, 5, 3), (2, 7, 1)]


@pytest.mark.parametrize("moment", ["first", "middle", "last"])
@pytest.mark.parametrize(("rows", "columns", "weight_rows"), SHAPES)
@pytest.mark.parametrize("cells", ["portable", "pair"])
def test_tiles_follow_one_another_under_a_stream(rows, columns, weight_rows, moment, cells, rng):
    array = SystolicArray(
        rows=rows,
        columns=columns,
        weight_rows=weight_rows,
        dsp_columns=columns - 1 if cells == "pair" else columns // 2,
        cells=cells,
    )
    each = rows // weight_rows
    gaps = [each, each, each + 3, each, 2 * each + 1, each]
    switches = (rows + np.cumsum(gaps)).tolist()
    cycles = switches[-1] + 3 * rows + columns + 4
    stimulus = Stimulus(array, rng, switches, moment, cycles)
    check(array, stimulus, switches[0])


def check(array, stimulus, first_switch):
    cycles = len(stimulus.activations)
    sums = play(
        array, stimulus.activations, stimulus.switches, stimulus.loads, stimulus.weights[:cycles]
    )
    compared = 0
    for j in range(array.columns):
        late = array.latency + j
        begin = first_switch + 1
        got = sums[begin + late :, j]
        assert np.array_equal(got, stimulus.sums[begin : cycles - late, j]), f"column {j}"
        compared += len(got)
    assert compared


def test_extreme_sums_do_not_wrap(rng):
    array = SystolicArray(rows=4, columns=2)
    stimulus = Stimulus(array, rng, [8, 16], "middle", 40, extremes=True)
    stimulus.activations[9:14] = -128
    stimulus.tiles[0] = -128
    stimulus.sums[9:14] = 4 * 128 * 128
    for r in range(4):
        cycle = (r + 8 + r - 1) // 2
        for j in range(2):
            stimulus.weights[cycle + j, 0, j] = -128
    stimulus.sums[14:17] = stimulus.activations[14:17] @ stimulus.tiles[0]
    check(array, stimulus, 8)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 3), (8, 2)])
def test_latency_of_one_activation(rows, columns):
    array = SystolicArray(rows=rows, columns=columns)
    cycles = 4 * rows + columns + 8
    loads = np.zeros((cycles, rows), int)
    weights = np.zeros((cycles, 1, columns), int)
    for r in range(rows):
        loads[r, r] = 1
        for j in range(columns):
            weights[r + j, 0, j] = 10 * r + j + 1
    switches = np.zeros(cycles, bool)
    switches[rows] = True
    activations = np.zeros((cycles, rows), int)
    begin = rows + 1
    activations[begin] = 1
    # Too early by one cycle: the weights are not active yet.
    activations[begin - 1] = 1
    sums = play(array, activations, switches, loads, weights)
    wanted = np.zeros_like(sums)
    for j in range(columns):
        wanted[begin + rows + 2 + j, j] = sum(10 * r + j + 1 for r in range(rows))
    assert np.array_equal(sums, wanted)
