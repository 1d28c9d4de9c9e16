"""Synthesis to standard cells: area by block, and the longest path."""

import hashlib
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from celosia.hw.environment.extras import ToolError
from celosia.hw.flow import tools
from celosia.sw.chip.liberty import Library

#: Rows of the largest memory that is made of flip-flops.
SMALL = 16
# Modules that stay modules: blocks of the core, and those that it has many of.
_KEPT = re.compile(
    r"(?m)^module (celosia_(?:core|interrupts|\w+_unit|read_master|sequencer|unified_buffer"
    r"|(?:single_cell|array_\w+|requantizer_lane)(?:_\d+)?))\("
)

_GENERIC = """\
read_verilog core.v
hierarchy -top {top}
{kept}
proc -norom
flatten
hierarchy -top {top}
opt
wreduce
alumacc
memory -nomap
opt_clean
select -set small t:$mem_v2 r:SIZE<={small} %i
memory_map @small
opt -fast
techmap
opt -fast
setattr -unset init w:*
dfflegalize -cell $_DFF_P_ x
opt -fast
write_json netlist.json
"""
# A gate drives at most 16 others, through buffers; sizes follow the loads. Flip-flops get buffers
# only where ABC knows what drives the inputs of its logic.
_ABC = "strash\nifraig\ndc2\nmap -B 0.9\ntopo\nbuffer -c -p -N 16\nupsize\ndnsize\n"
_MAPPED = """\
read_json generic.json
dfflibmap -liberty cells.lib
abc -liberty cells.lib -script abc.script -constr drive.sdc
opt_clean -purge
write_json netlist.json
"""
# For the longest path a memory has a flip-flop at each of its pins.
_PINS = """\
(* techmap_celltype = "$mem_v2" *)
module pins(RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA);
  parameter WIDTH = 8, ABITS = 8, RD_PORTS = 1, WR_PORTS = 1, SIZE = 0, OFFSET = 0, INIT = 0;
  parameter MEMID = "", RD_WIDE_CONTINUATION = 0, RD_CLK_ENABLE = 0, RD_CLK_POLARITY = 0;
  parameter RD_TRANSPARENCY_MASK = 0, RD_COLLISION_X_MASK = 0, RD_CE_OVER_SRST = 0;
  parameter RD_INIT_VALUE = 0, RD_ARST_VALUE = 0, RD_SRST_VALUE = 0, WR_CLK_ENABLE = 0;
  parameter WR_CLK_POLARITY = 0, WR_PRIORITY_MASK = 0, WR_WIDE_CONTINUATION = 0;
  localparam DATA = WR_PORTS * WIDTH, BITS = 2 * DATA + (RD_PORTS + WR_PORTS) * ABITS + RD_PORTS;
  input RD_CLK, WR_CLK;
  input [RD_PORTS-1:0] RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  input [DATA-1:0] WR_EN, WR_DATA;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  wire [BITS-1:0] open;
  \\$dff #(.WIDTH(BITS), .CLK_POLARITY(1)) in (
    .CLK(RD_CLK), .D({RD_EN, RD_ADDR, WR_EN, WR_ADDR, WR_DATA}), .Q(open));
  \\$dff #(.WIDTH(RD_PORTS * WIDTH), .CLK_POLARITY(1)) out (
    .CLK(RD_CLK), .D({RD_PORTS * WIDTH{1'b0}}), .Q(RD_DATA));
endmodule
"""
_TIMED = """\
read_json mapped.json
techmap -map pins.v t:$mem_v2
simplemap
dfflibmap -liberty cells.lib
setundef -zero
write_verilog -noattr -noexpr netlist.json
"""
_PATHS = """\
read_liberty cells.lib
read_verilog timed.v
link_design {top}
create_clock -name clk -period {period} [get_ports clk]
report_checks -path_delay max -digits 4
"""
#: Clock that paths are compared with, in ns.
_PERIOD = 100.0


class MissingError(ToolError):
    """A tool that this machine does not have."""


class Block(NamedTuple):
    """Cells of a block: area in µm², numbers of cells and flip-flops, shapes of its memories."""

    area: float
    cells: int
    registers: int
    memories: tuple[tuple[int, int], ...]

    @property
    def bits(self) -> int:
        """Bits of its memories."""
        return sum(words * width for words, width in self.memories)


def run(name: str, package: str, arguments: Sequence[str], directory: Path) -> str:
    """Run a tool in a folder and return its output; raises ToolError if it is missing or fails."""
    beside = str(Path(sys.executable).parent)
    path = shutil.which(name) or shutil.which(f"yowasp-{name}", path=beside)
    if path is None:
        raise MissingError(f"{name}: wanted it on PATH, found none (apt-get install {package})")
    log = directory / f"{name}.out"
    tools.execute(name, path, arguments, log)
    return log.read_text("utf-8")


class Netlist:
    """Netlists of a Verilog text in the cells of a library, each made at its first use.

    Parameters
    ----------
    text : str
        Verilog.
    top : str
        Its top module.
    library : Library
        Cells.
    directory : Path
        Where the files go; what is there is not made again.
    report : function of str
        Called with lines of progress.
    """

    def __init__(
        self,
        text: str,
        top: str,
        library: Library,
        directory: Path,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.text, self.top, self.library = text, top, library
        self.directory, self.report = directory.absolute(), report

    def _made(self, stage: str, script: str, files: Mapping[str, str | Path]) -> Path:
        """Return the file that a script of Yosys makes of files."""
        contents = {
            name: file if isinstance(file, str) else file.stem.rpartition("_")[2]
            for name, file in files.items()
        }
        digest = hashlib.sha256(repr((script, contents)).encode()).hexdigest()[:16]
        target = self.directory / f"{self.top}_{stage}_{digest}"
        if target.exists():
            return target
        self.report(f"{self.top}: {stage}")
        folder = self.directory / f"{stage}_{digest}.part"
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            (folder / name).write_text(file if isinstance(file, str) else file.read_text())
        (folder / "script.ys").write_text(script)
        run("yosys", "yosys berkeley-abc", ["-q", "-l", "log", "script.ys"], folder)
        (folder / "netlist.json").rename(target)
        shutil.rmtree(folder)
        return target

    @cached_property
    def generic(self) -> Path:
        """Netlist of Yosys's own gates, before a library is known."""
        modules = "\n".join(
            f"setattr -mod -set keep_hierarchy 1 {name}" for name in _KEPT.findall(self.text)
        )
        script = _GENERIC.format(top=self.top, kept=modules, small=SMALL)
        return self._made("generic", script, {"core.v": self.text})

    @cached_property
    def _cells(self) -> str:
        return self.library.content.decode("utf-8", "replace")

    @cached_property
    def mapped(self) -> Path:
        """Netlist of the library's cells as JSON, its modules those that stay."""
        drive = f"set_driving_cell {self.library.inverter}\n"
        files = {"generic.json": self.generic, "cells.lib": self._cells, "abc.script": _ABC}
        files |= {"drive.sdc": drive}
        return self._made("mapped", _MAPPED, files)

    @cached_property
    def flat(self) -> Path:
        """The same as one module, names joined by dots."""
        script = (
            "read_json mapped.json\nsetattr -mod -unset keep_hierarchy *\nflatten\n"
            f"hierarchy -top {self.top}\nwrite_json netlist.json\n"
        )
        return self._made("flat", script, {"mapped.json": self.mapped})

    def longest_path(self) -> tuple[float, str, str]:
        """Return the longest path between registers in ns, and its ends.

        Raises ToolError without OpenSTA.
        """
        files = {"mapped.json": self.mapped, "cells.lib": self._cells, "pins.v": _PINS}
        timed = self._made("timed", _TIMED, files)
        folder = self.directory / f"{timed.name}_paths"
        folder.mkdir(exist_ok=True)
        (folder / "timed.v").write_text(timed.read_text())
        (folder / "cells.lib").write_text(self._cells)
        (folder / "paths.tcl").write_text(_PATHS.format(top=self.top, period=_PERIOD))
        text = run("sta", "opensta", ["-exit", "paths.tcl"], folder)
        slack = re.search(r"(-?[\d.]+)\s+slack", text)
        ends = re.findall(r"(?:Start|End)point: (\S+)", text)
        if slack is None:
            raise ToolError(f"sta: wanted a path, found none; see {folder / 'sta.out'}")
        return _PERIOD - float(slack[1]), ends[0], ends[1]

    def blocks(self) -> dict[str, Block]:
        """Return the blocks, the largest first: instances of ``celosia_core``, else the top."""
        modules = json.loads(self.mapped.read_text())["modules"]
        if "celosia_core" not in modules:
            return {self.top: self._block(modules, [self.top])}
        cells = modules["celosia_core"]["cells"]
        kinds = {name: cell["type"] for name, cell in cells.items()}
        own = [kind for kind in kinds.values() if kind in self.library.cells]
        result = {
            name: self._block(modules, [kind]) for name, kind in kinds.items() if kind not in own
        }
        result["between"] = self._block(modules, own)
        return dict(sorted(result.items(), key=lambda item: -item[1].area))

    def _block(self, modules: Any, kinds: Sequence[str]) -> Block:
        """Return what modules and cells contain."""
        cells: Counter[str] = Counter()
        memories: list[tuple[int, int]] = []
        todo = Counter(kinds)
        while todo:
            kind, count = todo.popitem()
            if kind in self.library.cells:
                cells[kind] += count
                continue
            for cell in modules[kind]["cells"].values():
                if cell["type"] == "$mem_v2":
                    size, width = (int(cell["parameters"][n], 2) for n in ("SIZE", "WIDTH"))
                    memories += [(size, width)] * count
                else:
                    todo[cell["type"]] += count
        known = {kind: self.library.cells[kind] for kind in cells}
        return Block(
            sum(known[kind].area * count for kind, count in cells.items()),
            cells.total(),
            sum(count for kind, count in cells.items() if known[kind].register),
            tuple(sorted(memories)),
        )
