"""Multiply two matrices on the core's systolic array, and show every cell in every cycle.

The array is the one of the core, simulated by Amaranth. The table is read from the waveform, so
that both have the same names: ``shadow``, ``b_held``, ``a_held``, ``p``, ``sums_out``.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from amaranth.sim import Simulator
from vcd.reader import TokenKind, tokenize

from celosia.hw.matrix.array import SystolicArray

#: Signals of a cell, as the waveform calls them: title in the table, scope in the cell, name.
SIGNALS = (
    ("n", (), "shadow"),
    ("w", ("product",), "b_held"),
    ("a", ("product",), "a_held"),
    ("p", ("product",), "p"),
    ("sum", (), "sums_out[0]"),
)


class Schedule(NamedTuple):
    """Cycles of one product of two matrices on an array of ``size`` × ``size`` cells."""

    size: int

    @property
    def switch(self) -> int:
        """Cycle of the switch: the last row has been told to load in the cycle before."""
        return self.size + 1

    @property
    def first(self) -> int:
        """Cycle in which the first vector of activations enters."""
        return self.switch + 1

    def result(self, vector: int, column: int) -> int:
        """Return the cycle in which the array shows the sum of a vector in a column."""
        return self.first + vector + self.size + 2 + column

    @property
    def cycles(self) -> int:
        """Cycles until the last sum is there."""
        return self.result(self.size - 1, self.size - 1) + 1


def matrices(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the activations and the weights: int8 [size, size], small and without zeros."""
    numbers = np.random.default_rng(4).choice([-3, -2, -1, 1, 2, 3], (2, size, size))
    return numbers[0].astype(np.int8), numbers[1].astype(np.int8)


def simulate(x: np.ndarray, w: np.ndarray, waveform: Path) -> np.ndarray:
    """Return ``x @ w`` as the array computes it; write the waveform.

    Parameters
    ----------
    x, w : ndarray of int8 [size, size]
        Activations, a vector in each row; weights, an output channel in each column.
    waveform : Path
        File of type VCD.
    """
    size = len(x)
    schedule = Schedule(size)
    array = SystolicArray(rows=size, columns=size, dsp_columns=size)
    result = np.zeros((size, size), np.int32)

    async def bench(ctx: Any) -> None:
        for cycle in range(schedule.cycles):
            for column in range(size):
                row = cycle - column
                ctx.set(array.weights[0][column], int(w[row, column]) if 0 <= row < size else 0)
                vector = cycle - schedule.result(0, column)
                if 0 <= vector < size:
                    result[vector, column] = ctx.get(array.sums[column])
            ctx.set(array.load, 1 << cycle - 1 if 1 <= cycle <= size else 0)
            ctx.set(array.switch, cycle == schedule.switch)
            vector = cycle - schedule.first
            ctx.set(array.activations, x[vector].tolist() if 0 <= vector < size else [0] * size)
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    with simulator.write_vcd(str(waveform)):
        simulator.run()
    return result


def cells(waveform: Path, size: int) -> np.ndarray:
    """Return int [cycle, row, column, signal], the contents of the cells; see ``SIGNALS``."""
    wanted = {
        ("bench", "top", f"row_{row}", f"cell_{column}", *scope, name): (row, column, n)
        for row in range(size)
        for column in range(size)
        for n, (_, scope, name) in enumerate(SIGNALS)
    }
    return np.array(list(_snapshots(waveform, wanted, (size, size, len(SIGNALS)))))


def _snapshots(
    waveform: Path, wanted: dict[tuple[str, ...], tuple[int, ...]], shape: tuple[int, ...]
) -> Iterator[np.ndarray]:
    """Yield the values of the signals just before each rising edge of the clock."""
    found: dict[str, tuple[tuple[int, ...], int]] = {}
    now, before = np.zeros(shape, int), np.zeros(shape, int)
    clock, scopes = "", []
    with waveform.open("rb") as file:
        for token in tokenize(file):
            if token.kind is TokenKind.SCOPE:
                scopes.append(token.scope.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif token.kind is TokenKind.VAR:
                name = (*scopes, token.var.reference)
                if token.var.reference == "clk":
                    clock = token.var.id_code
                elif name in wanted:
                    found[token.var.id_code] = (wanted[name], token.var.size)
            elif token.kind is TokenKind.CHANGE_TIME:
                before = now.copy()
            elif token.kind in (TokenKind.CHANGE_SCALAR, TokenKind.CHANGE_VECTOR):
                change: Any = token.data
                if change.id_code == clock and change.value == "1":
                    yield before
                elif change.id_code in found:
                    index, bits = found[change.id_code]
                    now[index] = _signed(change.value, bits)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def table(cycle: int, contents: np.ndarray) -> str:
    """Return the contents of all cells in one cycle as text; a dot is a zero.

    Parameters
    ----------
    cycle : int
        Cycle to show.
    contents : ndarray of int [cycle, row, column, signal]
        See ``cells``. Columns are as wide as the longest number of all cycles.
    """
    ends = zip(contents.min((0, 1, 2)), contents.max((0, 1, 2)), SIGNALS, strict=True)
    widths = [max(len(str(least)), len(str(most)), len(s[0]) + 1) for least, most, s in ends]

    def line(words: Iterable[str]) -> str:
        return " ".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True))

    titles = line(title for title, *_ in SIGNALS)
    lines = [f"cycle {cycle}", "      " + " |".join([titles] * contents.shape[2])]
    for row, of_row in enumerate(contents[cycle]):
        columns = (line(str(value or ".") for value in of_cell) for of_cell in of_row)
        lines.append(f"row {row} " + " |".join(columns))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Multiply, print, and compare with NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4, help="rows and columns of the array (4)")
    parser.add_argument("--waveform", type=Path, default=Path("systolic_array.vcd"))
    arguments = parser.parse_args()
    if not 2 <= arguments.size <= 64:
        parser.error(f"--size: wanted 2 to 64, got {arguments.size}")
    x, w = matrices(arguments.size)
    result = simulate(x, w, arguments.waveform)
    print(f"activations\n{x}\nweights\n{w}\n")
    contents = cells(arguments.waveform, arguments.size)
    for cycle in range(len(contents)):
        print(table(cycle, contents))
    wanted = x.astype(np.int32) @ w
    wrong = np.count_nonzero(result != wanted)
    print(f"sums of the array\n{result}\n{wrong} of {wanted.size} differ from NumPy")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
