"""Chips the controller knows, and their times in cycles of a clock."""

from dataclasses import dataclass

#: Cycles by which a refresh may come later than it falls due; see ``docs/reference/sdram.md``.
REFRESH_LATENESS = 1024
#: Fewest cycles between two refreshes falling due: no more than two wait for a pause of the pins.
LEAST_INTERVAL = 192

_NANOSECONDS = 10**9
#: Address bit 10 says whether a row is closed.
_COLUMN_BITS = 10


@dataclass(frozen=True, kw_only=True)
class Part:
    """Figures of a chip's data sheet: 16 data pins, four banks. Times are minima, in ns.

    Parameters
    ----------
    name : str
        Order number without package and temperature range.
    row_bits, column_bits : int
        Widths of a row's and of a column's address.
    clock_cl2_ns, clock_cl3_ns : int
        Clock period at CAS latency 2 and 3.
    rcd_ns, rp_ns, ras_ns, rc_ns, rrd_ns : int
        Activate to column command; precharge to activate; activate to precharge; activate to
        activate in one bank; in two banks.
    rfc_ns : int
        Refresh to refresh or activate.
    wr_ns : int
        Last data written to precharge (tWR, tDPL); taken to be two clocks at least.
    mrd_ns : int
        Mode register set to any command; taken to be two clocks at least.
    startup_ns : int
        Stable clock and power before the first command.
    refresh_ns, refresh_count : int
        So many refreshes within that time.
    access_cl2_ns, access_cl3_ns : float
        From a clock edge to the word, at most, at CAS latency 2 and 3.
    output_hold_ns : float
        For which a word stays after the edge that has it.
    setup_ns, hold_ns : float
        Of all that the chip is given, before and after its clock edge.
    """

    name: str
    row_bits: int = 13
    column_bits: int
    clock_cl2_ns: int
    clock_cl3_ns: int
    rcd_ns: int
    rp_ns: int
    ras_ns: int
    rc_ns: int
    rrd_ns: int
    rfc_ns: int
    wr_ns: int
    mrd_ns: int
    startup_ns: int = 200_000
    refresh_ns: int = 64_000_000
    refresh_count: int = 8192
    access_cl2_ns: float = 6.0
    access_cl3_ns: float = 5.4
    output_hold_ns: float = 2.5
    setup_ns: float = 1.5
    hold_ns: float = 0.8

    @property
    def address_bits(self) -> int:
        """Width of a byte address: one bit for the byte of a word, two for the bank."""
        return self.row_bits + 2 + self.column_bits + 1


#: By order number.
PARTS = {
    part.name: part
    for part in (
        Part(
            name="IS42S16160G-7",
            column_bits=9,
            clock_cl2_ns=10,
            clock_cl3_ns=7,
            rcd_ns=15,
            rp_ns=15,
            ras_ns=37,
            rc_ns=60,
            rrd_ns=14,
            rfc_ns=60,
            wr_ns=14,
            mrd_ns=14,
        ),
        Part(
            name="AS4C32M16SB-7",
            column_bits=10,
            clock_cl2_ns=10,
            clock_cl3_ns=7,
            rcd_ns=21,
            rp_ns=21,
            ras_ns=42,
            rc_ns=63,
            rrd_ns=14,
            rfc_ns=63,
            wr_ns=14,
            mrd_ns=14,
        ),
        Part(
            name="AS4C32M16SB-6",
            column_bits=10,
            clock_cl2_ns=10,
            clock_cl3_ns=6,
            rcd_ns=18,
            rp_ns=18,
            ras_ns=42,
            rc_ns=60,
            rrd_ns=12,
            rfc_ns=60,
            wr_ns=12,
            mrd_ns=12,
        ),
        # Inside the package, 32 data pins, of which 16 are used.
        Part(
            name="GW2AR-18",
            row_bits=11,
            column_bits=8,
            clock_cl2_ns=10,
            clock_cl3_ns=7,
            rcd_ns=20,
            rp_ns=20,
            ras_ns=45,
            rc_ns=65,
            rrd_ns=14,
            rfc_ns=65,
            wr_ns=15,
            mrd_ns=14,
            refresh_count=4096,
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of a part in cycles of one clock; :meth:`derive` makes them.

    Parameters
    ----------
    cas_latency : int
        From a read command to its first word, 2 or 3.
    rcd, rp, ras, rc, rrd, rfc, wr, mrd, startup : int
        As in :class:`Part`.
    refresh_interval : int
        Between two refreshes falling due.
    """

    cas_latency: int
    rcd: int
    rp: int
    ras: int
    rc: int
    rrd: int
    rfc: int
    wr: int
    mrd: int
    startup: int
    refresh_interval: int

    @classmethod
    def derive(cls, part: Part, *, clock_hz: int, cas_latency: int) -> "Timing":
        """Return the times of ``part`` at a clock of ``clock_hz``, rounded to the safe side.

        Raises
        ------
        ValueError
            If the part has no such CAS latency, is not as fast, cannot be refreshed in time, wants
            more between two banks than the controller keeps, or has more columns than it addresses.

        Examples
        --------
        >>> Timing.derive(PARTS["IS42S16160G-7"], clock_hz=120_000_000, cas_latency=3).rc
        8
        """
        periods = {2: part.clock_cl2_ns, 3: part.clock_cl3_ns}
        if cas_latency not in periods:
            raise ValueError(f"cas_latency: wanted 2 or 3, got {cas_latency}")
        fastest = _NANOSECONDS // periods[cas_latency]
        if not 0 < clock_hz <= fastest:
            raise ValueError(
                f"clock_hz: wanted 1 to {fastest} for {part.name} at CAS latency {cas_latency}, "
                f"got {clock_hz}"
            )

        def cycles(time_ns: int, least: int = 1) -> int:
            return max(least, -(-time_ns * clock_hz // _NANOSECONDS))

        window = part.refresh_ns * clock_hz // _NANOSECONDS
        interval = (window - REFRESH_LATENESS) // part.refresh_count
        if interval < LEAST_INTERVAL:
            raise ValueError(
                f"clock_hz: wanted {LEAST_INTERVAL} cycles or more between refreshes of "
                f"{part.name}, got {interval} at {clock_hz}"
            )
        # What is between two banks: a command to each, and a column command after rcd.
        kept = cycles(part.rcd_ns) + 2
        if cycles(part.rrd_ns) > kept:
            raise ValueError(
                f"rrd_ns: wanted {kept} cycles at most for {part.name}, got {cycles(part.rrd_ns)}"
            )
        if part.column_bits > _COLUMN_BITS:
            raise ValueError(
                f"column_bits: wanted {_COLUMN_BITS} at most for {part.name}, "
                f"got {part.column_bits}"
            )
        return cls(
            cas_latency=cas_latency,
            rcd=cycles(part.rcd_ns),
            rp=cycles(part.rp_ns),
            ras=cycles(part.ras_ns),
            rc=cycles(part.rc_ns),
            rrd=cycles(part.rrd_ns),
            rfc=cycles(part.rfc_ns),
            wr=cycles(part.wr_ns, 2),
            mrd=cycles(part.mrd_ns, 2),
            startup=cycles(part.startup_ns),
            refresh_interval=interval,
        )

    def read_to_precharge(self, words: int) -> int:
        """Return cycles from a read of ``words`` to a precharge of its bank."""
        return words + self.cas_latency - 2

    def write_to_precharge(self, words: int) -> int:
        """Return cycles from a write of ``words`` to a precharge of its bank."""
        return words - 1 + self.wr

    def read_to_write(self, words: int) -> int:
        """Return cycles from a read of ``words`` to a write: one idle cycle between their data."""
        return self.cas_latency + words + 1
