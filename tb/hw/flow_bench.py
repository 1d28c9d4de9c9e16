"""Tools of the flow made of shell, with the options and the outputs of the real ones."""

import stat

# Amaranth looks for a Yosys to write Verilog with, and reads the version of this one.
YOSYS = """#!/bin/sh
[ "$1" = -V ] && exit
[ "$1" = --version ] && { echo "Yosys 0.99 of shell"; exit; }
echo ran >> yosys.runs
top=celosia core=inner
[ -e board.v ] && top=board core=celosia.core
cat > netlist.json <<END
{"modules": {"$top": {"cells": {
  "\\$auto\\$1": {"type": "LUT4", "attributes": {}, "port_directions": {"A": "input", "Z": "output"},
              "connections": {"A": [2], "Z": [3]}},
  "\\$auto\\$2": {"type": "TRELLIS_FF", "attributes": {},
              "port_directions": {"DI": "input", "Q": "output"},
              "connections": {"DI": [3], "Q": [4]}}},
  "netnames": {"$core.matrix.sum": {"bits": [4]}}}}}
END
"""
NEXTPNR = """#!/bin/sh
[ "$1" = --help ] && { echo "--seed arg"; exit 0; }
[ "$1" = --version ] && { echo "nextpnr 0.99 of shell" >&2; exit 0; }
while [ $# -gt 0 ]; do
  case "$1" in
    --seed) seed=$2 ;; --report) report=$2 ;; --json) test -f "$2" || exit 3 ;;
    --sdf) sdf=$2 ;; --write) placed=$2 ;; --textcfg) routed=$2 ;;
    --freq) freq=$2 ;;
    --lpf) grep -q SITE "$2" || exit 4 ;;
  esac
  shift
done
[ "$seed" = 13 ] && { echo "no route"; exit 1; }
echo "Info: Routing.."
echo "ran $seed" >> nextpnr.runs
echo "routed $seed" > "$routed"
cat > "$report" <<END
{"fmax": {"double": {"achieved": 20$seed, "constraint": $((2 * freq))},
          "clk": {"achieved": 9$seed, "constraint": $freq}},
 "utilization": {"FF": {"used": 5, "available": 9}, "DSP": {"used": 0, "available": 4}}}
END
cat > "$placed" <<END
{"modules": {"top": {"cells": {
  "\\$auto\\$1": {"type": "TRELLIS_COMB", "attributes": {"NEXTPNR_BEL": "X2/Y3/SLICEA.COMB0"},
              "port_directions": {"A": "input", "F": "output"},
              "connections": {"A": [2], "F": [3]}},
  "\\$auto\\$2": {"type": "TRELLIS_FF", "attributes": {"NEXTPNR_BEL": "X4/Y5/SLICEA.FF0"},
              "port_directions": {"DI": "input", "Q": "output"},
              "connections": {"DI": [3], "Q": [4]}}},
  "netnames": {}}}}
END
cat > "$sdf" <<END
(CELL (CELLTYPE "top")
  (INSTANCE )
  (INTERCONNECT \\\\\\$auto\\\\\\$2/Q \\\\\\$auto\\\\\\$1/A (1000:1000:1000) (1000:1000:1500))
  (INTERCONNECT \\\\\\$auto\\\\\\$1/F \\\\\\$auto\\\\\\$2/DI (100:200:300) (100:200:300))
  (CELLTYPE "TRELLIS_COMB")
  (INSTANCE \\\\\\$auto\\\\\\$1)
  (IOPATH A F (200:210:240) (200:210:230))
  (CELLTYPE "TRELLIS_FF")
  (INSTANCE \\\\\\$auto\\\\\\$2)
  (IOPATH CLK Q (430:477:500) (430:477:500))
  (SETUPHOLD (posedge DI) (posedge CLK) (0:10:60) (267:285:303))
END
"""
ECPPACK = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --input) input=$2 ;; --bit) bit=$2 ;; esac
  shift
done
sed s/routed/packed/ "$input" > "$bit"
"""
TOOLS = {"yosys": YOSYS, "nextpnr-ecp5": NEXTPNR, "ecppack": ECPPACK}


def make_tools(folder, tools):
    """Write tools into a new folder, and return it; without ``--version`` they report nothing."""
    folder.mkdir()
    for name, text in tools.items():
        first, rest = text.split("\n", 1)
        silent = "" if "--version" in text else '[ "$1" = --version ] && exit\n'
        (folder / name).write_text(f"{first}\n{silent}{rest}")
        (folder / name).chmod(stat.S_IRWXU)
    return folder
