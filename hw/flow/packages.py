"""Pins of memories inside of a package, which have no numbers."""

from importlib.resources import as_file, files

from celosia.hw.flow.parts import Part


def inner_pins(part: Part) -> str:
    """Return lines for the file of pins: sites of the memory in the package of a Gowin part.

    Ports have the names that Gowin gives them, as in litex-boards. The sites are those of Apicula.
    Empty for a part without such a memory.
    """
    if part.package is None:
        return ""
    from apycula.chipdb import load_chipdb

    die, device, package = part.package
    with as_file(files("apycula") / f"{die}.msgpack.xz") as path:
        pins = load_chipdb(str(path)).sip_cst[device][package]
    # All of them are at the left and at the right edge.
    sites = ((name, "RL"[not x], y + 1, half) for name, y, x, half, _ in pins)
    return "".join(f'IO_LOC "{name}" IO{edge}{y}{half};\n' for name, edge, y, half in sites)
