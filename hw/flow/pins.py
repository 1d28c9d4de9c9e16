"""Files of pins and clocks, in the format of each family."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from celosia.hw.flow.parts import Family


class Pin(NamedTuple):
    """A bit of a port of the top module, the pin it goes to, and what the pad is set to."""

    port: str
    pin: str
    attributes: Mapping[str, Any]


def _lpf(pins: Iterable[Pin], clocks: Mapping[str, int]) -> Iterable[str]:
    for port, pin, attributes in pins:
        yield f'LOCATE COMP "{port}" SITE "{pin}";'
        if attributes:
            settings = " ".join(f"{key}={value}" for key, value in attributes.items())
            yield f'IOBUF PORT "{port}" {settings};'
    for port, hertz in clocks.items():
        yield f'FREQUENCY PORT "{port}" {hertz / 1e6:g} MHZ;'


def _pcf(pins: Iterable[Pin], clocks: Mapping[str, int]) -> Iterable[str]:
    for port, pin, attributes in pins:
        pull = " -pullup yes" if attributes.get("PULLUP") else ""
        yield f"set_io{pull} {port} {pin}"
    for port, hertz in clocks.items():
        yield f"set_frequency {port} {hertz / 1e6:g}"


def _cst(pins: Iterable[Pin], clocks: Mapping[str, int]) -> Iterable[str]:
    for port, pin, attributes in pins:
        yield f'IO_LOC "{port}" {pin};'
        if attributes:
            settings = " ".join(f"{key}={value}" for key, value in attributes.items())
            yield f'IO_PORT "{port}" {settings};'


_FORMATS = {"lpf": _lpf, "pcf": _pcf, "cst": _cst}


def pin_file(family: Family, pins: Iterable[Pin], clocks: Mapping[str, int]) -> str:
    """Return a file of pins.

    Parameters
    ----------
    family : Family
        Whose format it has.
    pins : iterable of Pin
        All bits of all ports.
    clocks : mapping of str to int
        Ports that are clocks, and their frequencies in Hz.
    """
    lines = _FORMATS[family.suffix](pins, clocks)
    return "".join(f"{line}\n" for line in lines)
