"""Families of parts: the tools and options that lead to a bitstream of each."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from celosia.hw.arch.config import Config

#: Folder of boards, pins and clocks.
CONSTRAINTS = Path(__file__).parents[2] / "constraints"

#: Columns of a table of areas, and what they count.
COLUMNS = ("LUT", "FF", "DSP", "block RAM")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Options of the tools that make a bitstream for one family of parts.

    Parameters
    ----------
    name : str
        Of the family.
    synthesis : str
        Commands of Yosys from the elaborated top module, ``{top}``, to mapped cells.
    finish : str
        Commands of Yosys between the last check and the netlist.
    router : str
        Name of nextpnr's program.
    effort : tuple of str
        Options that decide how it works.
    threads : tuple of str
        Options that make it faster, for programs that take them.
    constraints : tuple of str
        Options by which it takes the file of pins, ``{file}``, where there are boards.
    suffixes : (str, str)
        Of the file of pins as LiteX writes it, and of the bitstream.
    routed : tuple of str
        Options by which it leaves what the packer reads, ``{file}``.
    packer : tuple of str
        Program that makes the bitstream, then its arguments: ``{routed}``, ``{bitstream}``, where
        there are boards.
    models : str
        Commands of Yosys that read what its cells do, for simulation; empty for none. Cells that
        are boxes there do not change.
    cells : str
        Cells of the array that its multipliers make, see ``Config``; each does two columns.
    single : str
        Cells with one multiplier for each column: they take less logic. For a part of which a
        quarter of the multipliers is left then. Empty for none.
    lane_multipliers : int
        Multipliers that a pipelined requantiser needs for each lane.
    columns : dict of str to (str, int)
        Kind of cell, to the column of ``COLUMNS`` and how many of them it counts for. Kinds end
        in ``*`` where anything may follow.
    logic : dict of str to (str, str)
        Kind of cell without a register on the way, to its inputs that take one step more to the
        outputs, and to those of a chain, which take none. Both may end in ``*``.
    clocks : tuple of str
        Inputs of clocks of all cells, likewise.
    """

    name: str
    synthesis: str = ""
    finish: str = ""
    router: str = ""
    effort: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    suffixes: tuple[str, str] = (".lpf", ".bit")
    routed: tuple[str, ...] = ()
    packer: tuple[str, ...] = ()
    models: str = ""
    cells: str = "portable"
    single: str = ""
    lane_multipliers: int = 0
    columns: dict[str, tuple[str, int]] = field(default_factory=dict, hash=False)
    logic: dict[str, tuple[str, str]] = field(default_factory=dict, hash=False)
    clocks: tuple[str, ...] = ("CLK*",)


#: Commands of abc9. Its own script also rewrites the logic by `&dc2`, which takes 1 % more LUTs.
#: Without `&scorr` and `&sweep`, or mapped twice, a core takes 1 % less, and is 20 or 10 % slower.
_MAPPING = "&scorr; &sweep; &dch -f -r; &ps; &if {{C}} {{W}} {{D}} {{R}} -v; &mfs"

#: The last step of ``synth_ecp5`` is written here, without ``autoname``, which takes longer than
#: all the others. Router 1 takes hours on a part that is four fifths full. Wide LUTs take 2 % more
#: cells, and `micro` was no faster with them. With `--tmg-ripup` router 2 also looks for other ways
#: where a path is too late for the requested clock, up to its round 1,500: a clock slightly above
#: what can be reached gives the fastest netlist, one far above it many rounds.
ECP5 = Family(
    name="ECP5",
    synthesis=(
        f'scratchpad -set abc9.script "+{_MAPPING}"\n'
        "synth_ecp5 -nowidelut -top {top} -run begin:check"
    ),
    finish="blackbox =A:whitebox",
    router="nextpnr-ecp5",
    effort=("--router", "router2", "--tmg-ripup"),
    threads=("--parallel-refine",),
    constraints=("--lpf", "{file}"),
    routed=("--textcfg", "{file}"),
    packer=("ecppack", "--compress", "--input", "{routed}", "--bit", "{bitstream}"),
    models="read_verilog -lib +/ecp5/cells_bb.v; read_verilog -overwrite +/ecp5/cells_sim.v",
    cells="ecp5_pair",
    single="ecp5",
    lane_multipliers=3,
    columns={
        "LUT4": ("LUT", 1),
        "CCU2C": ("LUT", 2),
        "TRELLIS_DPR16X4": ("LUT", 4),
        "TRELLIS_COMB": ("LUT", 1),
        "TRELLIS_FF": ("FF", 1),
        "MULT18X18D": ("DSP", 1),
        "DP16KD": ("block RAM", 1),
    },
    logic={"LUT4": ("*", ""), "CCU2C": ("*", "CIN"), "TRELLIS_DPR16X4": ("RAD*", "")},
    clocks=("CLK*", "WCK"),
)

ICE40 = Family(
    name="iCE40",
    synthesis="synth_ice40 -spram -top {top} -run begin:check",
    finish="blackbox =A:whitebox",
    router="nextpnr-ice40",
    routed=("--asc", "{file}"),
    models="read_verilog -defer +/ice40/cells_sim.v",
    cells="ice40_pair",
    columns={
        "SB_LUT4": ("LUT", 1),
        "ICESTORM_LC": ("LUT", 1),
        "SB_DFF*": ("FF", 1),
        "SB_MAC16": ("DSP", 1),
        "ICESTORM_DSP": ("DSP", 1),
        "SB_RAM40_4K*": ("block RAM", 1),
        "ICESTORM_RAM": ("block RAM", 1),
    },
    # The LUT after a carry is the step.
    logic={"SB_LUT4": ("*", ""), "SB_CARRY": ("", "*")},
    clocks=("C", "CLK", "RCLK", "WCLK", "CLOCK"),
)

GOWIN = Family(
    name="Gowin",
    synthesis="synth_gowin -family gw2a -nowidelut -top {top} -run begin:check",
    finish="blackbox =A:whitebox",
    router="nextpnr-himbaechel-gowin",
    constraints=("--vopt", "cst={file}"),
    suffixes=(".cst", ".fs"),
    routed=("--write", "{file}"),
    packer=("gowin_pack", "-d", "GW2A-18C", "-o", "{bitstream}", "{routed}"),
    columns={
        "LUT*": ("LUT", 1),
        "ALU": ("LUT", 1),
        "DFF*": ("FF", 1),
        "MULT*": ("DSP", 1),
        "SDP*": ("block RAM", 1),
        "DPB": ("block RAM", 1),
        "DPX9B": ("block RAM", 1),
        "SP": ("block RAM", 1),
        "SPX9": ("block RAM", 1),
    },
    logic={"LUT*": ("*", ""), "ALU": ("*", "CIN"), "RAM16SDP*": ("RAD*", "")},
)

SPARTAN6 = Family(name="Spartan-6", suffixes=(".ucf", ".bit"))
XILINX = Family(name="Xilinx", suffixes=(".xdc", ".bit"))
INTEL = Family(name="Intel", suffixes=(".qsf", ".sof"))
#: Parts of these families by the beginnings of their ordering codes.
_VENDORS = (
    (("xc6s",), SPARTAN6),
    (tuple(f"xc{letter}" for letter in "7kvzau"), XILINX),
    (("EP3C", "EP4C", "5C", "10M", "10CL"), INTEL),
)


@dataclass(frozen=True, kw_only=True)
class FpgaPart:
    """One part.

    Parameters
    ----------
    name : str
        What the command line calls it.
    family : Family
        How it is built for.
    title : str
        The same for readers.
    options : tuple of str
        By which nextpnr knows it; none for parts that only the vendor's tools place.
    multipliers : int
        How many it has.
    multiplier_blocks, memory_blocks : tuple of (int, tuple of int)
        Rows of blocks of four multipliers, or four memories: y, and x of each; empty where nobody
        looked. Multipliers are taken in the order of their rows.
    size : (int, int)
        Columns and rows of its tiles, where somebody looked.
    settings : dict of str to str
        Settings of nextpnr that it takes out of the netlist alone.
    """

    name: str
    family: Family
    title: str
    options: tuple[str, ...] = ()
    multipliers: int
    multiplier_blocks: tuple[tuple[int, tuple[int, ...]], ...] = ()
    memory_blocks: tuple[tuple[int, tuple[int, ...]], ...] = ()
    size: tuple[int, int] = (0, 0)
    settings: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_open(self) -> bool:
        """True if open tools place and route it."""
        return bool(self.options)

    def suited(self, config: Config, cores: int = 1) -> Config:
        """Return the same core made of the multipliers that this part has for each of ``cores``.

        A core that names the cells it is made of does not change.
        """
        family = self.family
        if config.cells != "portable" or family.cells == "portable":
            return config
        lanes = config.lanes if config.requantizer == "pipelined" else 0
        multipliers = self.multipliers // cores
        left = multipliers - family.lane_multipliers * lanes
        # With nearly all multipliers in use, wires are long and the router finds no way.
        least = multipliers // 4
        if family.single and config.rows * config.columns <= left - least:
            return replace(config, cells=family.single, dsp_columns=config.columns)
        pairs = max(0, min(config.columns // 2, left // config.rows))
        return replace(config, cells=family.cells, dsp_columns=2 * pairs)


#: Blocks of an ECP5 by thousands of its cells: columns and rows of tiles, x of the blocks of four
#: multipliers or memories in each of their rows, y of the rows of multipliers, in the order in
#: which they are taken, and of memories. Of the orders tried for an 85 this one left the shortest
#: wires.
_BLOCKS = {
    "25": ((72, 50), (4, 13, 22, 33, 42, 51, 60), (13,), (25, 37)),
    "45": ((90, 71), (4, 13, 22, 31, 42, 51, 60, 69, 78), (22, 46), (10, 34, 58)),
    "85": ((126, 95), (*range(4, 60, 9), *range(69, 120, 9)), (58, 10, 34), (22, 46, 70, 82)),
}
_BLOCKS["12"] = _BLOCKS["25"]

#: Router 2 looks for a net's way 12 tiles around the box of its ends, instead of 3, and takes what
#: is left of a way at 0.6 times its estimate, instead of 1.25 times: it tries more ways, and finds
#: shorter ones. HeAP minds what is late three times as much as by default.
_ECP5_SETTINGS = {
    "router2/bbMargin/x": "12",
    "router2/bbMargin/y": "12",
    "router2/estimateWeight": "0.6",
    "placerHeap/timingWeight": "30",
}


def _ecp5(name: str, size: str, package: str, speed: int = 6) -> FpgaPart:
    cells = size[-3:-1]
    tiles, columns, multipliers, memories = _BLOCKS[cells]
    return FpgaPart(
        name=name,
        family=ECP5,
        title=f"{name.partition('-C')[0]}, speed grade {speed}",
        options=(f"--{size}", "--package", package, "--speed", str(speed)),
        multipliers=4 * len(columns) * len(multipliers),
        multiplier_blocks=tuple((y, columns) for y in multipliers),
        memory_blocks=tuple((y, columns) for y in memories),
        size=tiles,
        settings=_ECP5_SETTINGS,
    )


#: By name; without a package the largest, for a core without a board.
PARTS = {
    part.name: part
    for part in (
        _ecp5("LFE5U-85F", "85k", "CABGA756"),
        _ecp5("LFE5U-85F-CABGA381", "85k", "CABGA381"),
        _ecp5("LFE5U-45F-CABGA381", "45k", "CABGA381"),
        _ecp5("LFE5U-25F-CABGA381", "25k", "CABGA381"),
        _ecp5("LFE5U-12F-CABGA381", "12k", "CABGA381"),
        _ecp5("LFE5U-25F-CSFBGA285", "25k", "CSFBGA285", speed=8),
        _ecp5("LFE5UM5G-85F-CABGA554", "um5g-85k", "CABGA554", speed=8),
        FpgaPart(
            name="GW2AR-18",
            family=GOWIN,
            title="GW2AR-18, speed C8/I7",
            options=("--device", "GW2AR-LV18QN88C8/I7", "--vopt", "family=GW2A-18C"),
            multipliers=48,
        ),
        FpgaPart(name="GW2A-18", family=GOWIN, title="GW2A-18", multipliers=48),
        FpgaPart(name="XC6SLX25", family=SPARTAN6, title="XC6SLX25", multipliers=38),
        FpgaPart(
            name="iCE40UP5K",
            family=ICE40,
            title="iCE40UP5K",
            options=("--up5k", "--package", "sg48"),
            multipliers=8,
        ),
    )
}


#: Packages of ECP5 in an ordering code, as nextpnr calls them.
_PACKAGES = {
    "BG256": "CABGA256",
    "BG381": "CABGA381",
    "BG554": "CABGA554",
    "BG756": "CABGA756",
    "MG285": "CSFBGA285",
    "TG144": "TQFP144",
}
#: ECP5 in ordering codes, as nextpnr calls them.
_SIZES = {"U-12": "12k"} | {
    f"{kind}-{size}": f"{kind}-{size}k".lower().removeprefix("u-")
    for kind in ("U", "UM", "UM5G")
    for size in (25, 45, 85)
}


def part_named(name: str) -> FpgaPart | None:
    """Return a part by its name or ordering code, or None.

    Without a package, it is the first of the table.
    """
    grades = (part for known, part in PARTS.items() if known.startswith(f"{name}-C"))
    return PARTS.get(name) or next(grades, None) or _ordered(name)


def _ordered(code: str) -> FpgaPart | None:
    """Return the part with an ordering code: an ECP5, or a part for its vendor's tools."""
    size, _, order = code.removeprefix("LFE5").partition("F-")
    speed, package = order[:1], order[1:].removesuffix("C").removesuffix("I")
    package = _PACKAGES.get(package, package)
    if code.startswith("LFE5") and size in _SIZES and speed in tuple("678"):
        if package in _PACKAGES.values():
            return _ecp5(code, _SIZES[size], package, int(speed))
    is_code = code.replace("-", "").replace("_", "").isalnum()
    for heads, family in _VENDORS if is_code else ():
        if code.startswith(heads) and code not in heads:
            return FpgaPart(name=code, family=family, title=code, multipliers=0)
    return None
