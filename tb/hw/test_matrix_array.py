"""Sizes and cells of the systolic array; tb/units has its products."""

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
