"""Clocks of a placed and routed design, out of the report of nextpnr."""

from typing import Any, NamedTuple

from celosia.hw.flow.netlist import plain


class Clock(NamedTuple):
    """Clock of a placed and routed design: its net, what it reached and what it has, in MHz."""

    net: str
    reached: float
    wanted: float


def net_of(clock: str) -> str:
    """Return the name of a clock before nextpnr made it global."""
    return plain(clock.removeprefix("$glbnet$"))


def clocks(record: dict[str, Any]) -> tuple[Clock, ...]:
    """Return all clocks of a report."""
    return tuple(
        Clock(net_of(name), clock["achieved"], clock["constraint"])
        for name, clock in record["fmax"].items()
    )


def reached(record: dict[str, Any], megahertz: float, own: frozenset[str]) -> float:
    """Return the clock that was reached by a report of nextpnr, where ``megahertz`` was wanted.

    All clocks of the design must be reached. A path from one of them to another one has a period of
    the faster, which nextpnr does not check. Paths between ``own`` and others are crossings.
    """
    records = record["fmax"]
    shares = [clock["achieved"] / clock["constraint"] for clock in records.values()]
    for path in record.get("critical_paths", ()):
        # "posedge" or "negedge", then the clock.
        start, end = (path[name].partition(" ")[2] for name in ("from", "to"))
        if (net_of(start) in own) != (net_of(end) in own):
            continue
        if start != end and start in records and end in records:
            nanoseconds = sum(step["delay"] for step in path["path"])
            fastest = max(records[start]["constraint"], records[end]["constraint"])
            shares.append(1000 / (nanoseconds * fastest))
    return megahertz * min(shares)
