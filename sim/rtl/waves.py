"""Waves of the simulated core: the file to write, and views of it for GTKWave and Surfer."""

import ctypes
import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcd.gtkw import GTKWSave

#: Time of a cycle in the file: its number is the time divided by this.
NANOSECONDS = 10

#: Groups of a view: name, module, its path, and how its ports begin.
_GROUPS = (
    ("registers (AXI4-Lite)", "celosia", "celosia", "s_axil__"),
    ("external memory (AXI4)", "celosia", "celosia", "m_axi__"),
    ("sequencer", "celosia_sequencer", "celosia.core.sequencer", ""),
    ("load", "celosia_load_unit", "celosia.core.load", ""),
    ("matrix", "celosia_matrix_unit", "celosia.core.matrix", ""),
    ("vector", "celosia_vector_unit", "celosia.core.vector", ""),
    ("store", "celosia_store_unit", "celosia.core.store", ""),
)
#: Wider ports, instructions for instance, are not shown.
_WIDEST = 128

_MODULE = re.compile(r"(?ms)^module (\w+)\(.*?^\);$")
_PORT = re.compile(
    r"(?m)^  (?:\(\*.*\*\) )?(?:input|output) (?:reg )?(?:\[(\d+):0\] )?(\w+)(?: =.*?)?,?(?:  //.*)?$"
)


class Waves(NamedTuple):
    """A file of waves."""

    path: Path  #: FST file to write.
    #: Cycles since reset that it holds: from ``first`` up to the one before ``last``.
    first: int = 0
    last: int = 20_000


def ports(verilog: str) -> dict[str, list[str]]:
    """Return the ports of the units of a core by group, as names in its waves."""
    modules = {match[1]: match[0] for match in _MODULE.finditer(verilog)}
    result = {}
    for group, module, path, start in _GROUPS:
        names = _PORT.findall(modules[module])
        result[group] = [
            f"TOP.{path}.{name}" + (f"[{high}:0]" if high else "")
            for high, name in sorted(names, key=lambda port: port[1])
            if name.startswith(start)
            and int(high or 0) < _WIDEST
            and name != "clk"
            and not name.startswith("reset")
        ]
    return result


def views(waves: Waves, groups: Mapping[str, Sequence[str]]) -> dict[Path, bytes]:
    """Return views of a file: ``.gtkw`` for GTKWave, ``.sucl``, commands, for Surfer."""
    text = io.StringIO()
    save = GTKWSave(text)
    save.dumpfile(str(waves.path.resolve()))
    commands = []
    save.trace("TOP.celosia.clk")
    for group, names in groups.items():
        commands.append(f"divider_add {group}")
        with save.group(group):
            for name in names:
                save.trace(name, datafmt="hex")
                commands.append(f"variable_add {name.partition('[')[0]}")
    commands.append("zoom_fit")
    return {
        waves.path.with_suffix(".gtkw"): text.getvalue().encode(),
        waves.path.with_suffix(".sucl"): "".join(f"{line}\n" for line in commands).encode(),
    }


class Recording:
    """A file of waves while a model writes it.

    - ``ports``: signals of the views by group, see ``ports``.
    - ``library``, ``device``: the compiled model, and a device of it.

    Raises OSError if the file cannot be written.
    """

    def __init__(
        self, waves: Waves, ports: Mapping[str, Sequence[str]], library: Any, device: Any
    ) -> None:
        self.waves = waves
        self.ports = ports
        # Complete only when the model is closed.
        self._unfinished = waves.path.with_name(f".{waves.path.name}.{os.getpid()}")
        start = library.celosia_waves
        start.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_uint64] * 2]
        if not start(device, os.fsencode(self._unfinished), waves.first, waves.last):
            raise OSError(f"{waves.path}: cannot be written")

    def finish(self) -> None:
        """Put the file and its views in place, after the model is closed."""
        os.replace(self._unfinished, self.waves.path)
        for path, content in views(self.waves, self.ports).items():
            path.write_bytes(content)
