"""Data sheets of SDRAM chips of single data rate, 16 data pins and four banks."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Figures of a data sheet: least times in ns unless noted otherwise.

    ``t_ck`` is the clock period for each CAS latency, ``t_wr_clocks`` and ``t_mrd_clocks`` hold in
    addition to the times in ns, ``t_ras_max`` is the longest time of an open row.
    """

    column_bits: int
    t_ck: dict[int, int]
    t_rcd: int
    t_rp: int
    t_ras: int
    t_rc: int
    t_rrd: int
    t_rfc: int
    t_wr: int
    t_mrd: int
    t_ras_max: int
    row_bits: int = 13
    t_wr_clocks: int = 2
    t_mrd_clocks: int = 2
    t_startup: int = 200_000
    t_ref: int = 64_000_000
    refreshes: int = 8192


#: ISSI IS42S16160G, Alliance AS4C32M16SB (table 16 of its sheet); in the package of a GW2AR-18 64 Mbit
#: devices of several makers were found; these are the slowest of their figures.
SHEETS = {
    "IS42S16160G-7": Sheet(
        column_bits=9,
        t_ck={2: 10, 3: 7},
        t_rcd=15,
        t_rp=15,
        t_ras=37,
        t_rc=60,
        t_rrd=14,
        t_rfc=60,
        t_wr=14,
        t_mrd=14,
        t_ras_max=100_000,
    ),
    "AS4C32M16SB-7": Sheet(
        column_bits=10,
        t_ck={2: 10, 3: 7},
        t_rcd=21,
        t_rp=21,
        t_ras=42,
        t_rc=63,
        t_rrd=14,
        t_rfc=63,
        t_wr=14,
        t_mrd=14,
        t_ras_max=120_000,
    ),
    "AS4C32M16SB-6": Sheet(
        column_bits=10,
        t_ck={2: 10, 3: 6},
        t_rcd=18,
        t_rp=18,
        t_ras=42,
        t_rc=60,
        t_rrd=12,
        t_rfc=60,
        t_wr=12,
        t_mrd=12,
        t_ras_max=120_000,
    ),
    "GW2AR-18": Sheet(
        row_bits=11,
        column_bits=8,
        t_ck={2: 10, 3: 7},
        t_rcd=20,
        t_rp=20,
        t_ras=45,
        t_rc=65,
        t_rrd=14,
        t_rfc=65,
        t_wr=15,
        t_mrd=14,
        t_ras_max=100_000,
        refreshes=4096,
    ),
}
