"""Devices by name; each is imported when it is chosen."""

from typing import Any

from celosia.hw.arch.config import Config
from celosia.sw.runtime.device import Device, DeviceError

__all__ = ["DEVICES", "open_device"]

#: Names of devices.
DEVICES = ("machine", "rtl")


def open_device(name: str, config: Config, memory_bytes: int, **options: Any) -> Device:
    """Return a device.

    Parameters
    ----------
    name : str
        ``machine`` or ``rtl``.
    config : Config
        Sizes of its core.
    memory_bytes : int
        External memory that will be used, from address 0.
    **options
        ``rtl``: ``latency`` in cycles and ``bandwidth`` in beats per cycle of external memory.

    Raises
    ------
    DeviceError
        If there is no such device, or no simulator.
    """
    if name == "machine":
        from celosia.sw.runtime.machine import MachineDevice

        return MachineDevice(config, memory_bytes)
    if name == "rtl":
        from celosia.sw.runtime.rtl import RtlBackend

        return RtlBackend(config, memory_bytes, **options)
    raise DeviceError(f"device: wanted one of {', '.join(DEVICES)}, got {name!r}")
