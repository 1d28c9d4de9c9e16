"""LiteX systems as devices: simulated, or on a board."""

import json
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.link import HostLink, Transport
from celosia.sw.driver.serial import LineDevice, LinePod, open_port

#: Name of the simulated system.
SIMULATED = "sim"
#: Name of its processor.
PROCESSOR = "vexriscv"
#: What a description must have.
_KEYS = ("baud", "cores", "memory", "memory_bytes", "registers", "start", "levelling", "processor")


def open_litex(name: str, config: Config, memory_bytes: int) -> LineDevice:
    """Return the core of a LiteX system.

    - ``name``: ``sim``, or ``sim+vexriscv`` with a processor, which is built when it is first used,
      with the memory of a board after ``@``; or the path of a description that ``celosia build``
      has written, ``@``, and the port of the board.
    - ``config``: sizes that its core must have.
    - ``memory_bytes``: external memory that will be used.

    Raises DeviceError if LiteX, a simulator or the description is missing, the port cannot be
    opened, nothing responds, or the core is of another configuration.
    """
    return LineDevice(config, memory_bytes, _link(name, config, 1))


def open_litex_pod(name: str, pod: PodConfig, memory_bytes: int) -> LinePod:
    """Return the pod of a LiteX system; ``memory_bytes`` are of each core, see ``open_litex``."""
    return LinePod(pod, memory_bytes, _link(name, pod, pod.cores))


def _link(name: str, config: Config | PodConfig, cores: int) -> HostLink:
    """Return the line to a system with so many cores."""
    first, _, board = name.partition("@")
    if first in (SIMULATED, f"{SIMULATED}+{PROCESSOR}"):
        transport, description = _simulated(config, board, processor=first != SIMULATED)
    else:
        transport, description = _board(name, cores)
    return HostLink(transport, description, name=f"litex {name}")


def _simulated(
    config: Config | PodConfig, board: str, *, processor: bool
) -> tuple[Transport, dict[str, Any]]:
    from celosia.sim.rtl import system
    from celosia.sim.rtl.simulators import SimulatorNotFound
    from celosia.sim.rtl.verilate import RtlError

    try:
        path = system.model(config, board, processor)
    except (SimulatorNotFound, RtlError, OSError, ValueError) as error:
        raise DeviceError(f"litex: {error}") from error
    return system.SimulatedLine(path), system.description(path)


def _board(name: str, cores: int) -> tuple[Transport, dict[str, Any]]:
    path, _, port = name.partition("@")
    if not port:
        raise DeviceError(
            f"litex: wanted {SIMULATED}, {SIMULATED}@BOARD or DESCRIPTION.json@PORT, got {name!r}"
        )
    try:
        description = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise DeviceError(f"litex: {path}: {error}") from None
    missing = [key for key in _KEYS if not isinstance(description, dict) or key not in description]
    if missing:
        raise DeviceError(f"litex: {path}: wanted {', '.join(missing)}, found none")
    if cores != description["cores"]:
        there = description["cores"]
        raise DeviceError(f"litex: {path}: wanted a system of --cores {cores}, got {there}")
    return open_port(port, description["baud"]), description
