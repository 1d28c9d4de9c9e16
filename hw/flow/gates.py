"""A netlist as Verilog again, for simulators: each cell replaced by what it does."""

import hashlib
from pathlib import Path

from celosia.hw.flow import tools
from celosia.hw.flow.flow import Design, synthesised

# Boxes of cells that came with the netlist give way to their models. Nothing is optimised but what
# the constants of a cell decide, else a simulator would have each look-up table before it as a tree
# of sixteen entries; a wire for each bit, so that it sees no loops through words; of block memory's
# writes of single bits, those that never happen go and the others become one.
_SCRIPT = """\
read_json {netlist}
delete =* {top} %d
{models}
hierarchy -top {top}
proc
flatten
simplemap
splitnets
opt_expr -mux_bool
opt_mem
memory_share
opt_clean -purge
check -assert
write_verilog -noattr {verilog}
"""


def gates(design: Design, directory: Path) -> Path:
    """Return the netlist of a design as Verilog, with Yosys's own models of the cells in place.

    What Yosys has no model of stays an instance. Made anew only when netlist or script changed.

    Parameters
    ----------
    design : Design
        What is synthesised, see ``synthesised``.
    directory : Path
        Where netlist, logs and the file go.

    Raises
    ------
    ValueError
        If the family has no models.
    ToolError
        If a tool is missing or fails.
    """
    family = design.part.family
    if not family.models:
        raise ValueError(f"gates: wanted a family with models of its cells, got {family.name}")
    netlist = synthesised(design, directory)
    script = _SCRIPT.format(
        netlist=netlist.name, top=design.name, models=family.models, verilog="gates.v"
    )
    stamp = hashlib.sha256(script.encode()).hexdigest()[:8]
    path = directory / f"{netlist.stem}_{stamp}.v"
    with tools.alone(directory):
        if not path.exists():
            (directory / "gates.ys").write_text(script)
            tools.run("yosys", ["-q", "-l", "gates.log", "gates.ys"], directory / "gates.out")
            (directory / "gates.v").rename(path)
    return path
