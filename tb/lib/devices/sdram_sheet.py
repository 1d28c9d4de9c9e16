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


_NAMES = "rcd rp ras rc rrd rfc wr mrd ras_max".split()


def _sheet(column_bits: int, fastest: int, times: str, **more: int) -> Sheet:
    named = {f"t_{name}": int(time) for name, time in zip(_NAMES, times.split(), strict=True)}
    return Sheet(column_bits=column_bits, t_ck={2: 10, 3: fastest}, **named, **more)


#: ISSI IS42S16160G, Alliance AS4C32M16SB (table 16 of its sheet); in the package of a GW2AR-18 64 Mbit
#: devices of several makers were found; these are the slowest of their figures.
SHEETS = {
    "IS42S16160G-7": _sheet(9, 7, "15 15 37 60 14 60 14 14 100_000"),
    "AS4C32M16SB-7": _sheet(10, 7, "21 21 42 63 14 63 14 14 120_000"),
    "AS4C32M16SB-6": _sheet(10, 6, "18 18 42 60 12 60 12 12 120_000"),
    "GW2AR-18": _sheet(8, 7, "20 20 45 65 14 65 15 14 100_000", row_bits=11, refreshes=4096),
}
