"""Devices by name; each is imported when it is chosen."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.sw.driver.device import Device, DeviceError, PodDevice
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.pods import Cores

#: Names of devices.
DEVICES = ("machine", "rtl", "litex:SYSTEM")

_LITEX = "litex:"

#: Options of devices, and those of LiteRT and ONNX Runtime, which have no meaning here.
_OPTIONS = ("latency", "bandwidth", "netlist", "waves")
_IGNORED = ("num_threads", "provider_options", "providers", "sess_options")


def device_name(text: str) -> str:
    """Return ``text`` if it names a device.

    Raises ``ValueError`` if it does not name one.
    """
    if text in ("machine", "rtl"):
        return text
    if isinstance(text, str) and text.startswith(_LITEX) and text != _LITEX:
        return text
    raise ValueError(f"device: wanted one of {', '.join(DEVICES)}, got {text!r}")


@contextmanager
def simulator_errors(kind: str) -> Iterator[None]:
    """Raise a missing simulator, or a model that cannot be built, as ``DeviceError``."""
    from celosia.sim.rtl.simulators import SimulatorNotFound
    from celosia.sim.rtl.verilate import RtlError

    try:
        yield
    except (SimulatorNotFound, RtlError, OSError) as error:
        raise DeviceError(f"{kind}: {error}") from error


def _require_name(text: str) -> None:
    """Raise ``DeviceError`` unless ``text`` names a device."""
    try:
        device_name(text)
    except ValueError as error:
        raise DeviceError(str(error)) from None


def open_device(name: str, config: Config, memory_bytes: int, **options: Any) -> Device:
    """Return a device.

    Parameters
    ----------
    name : str
        ``machine``, ``rtl``, or ``litex:`` and the name of a system, see ``open_litex``.
    config : Config
        Sizes of its core.
    memory_bytes : int
        External memory that will be used, from address 0.
    **options
        Of ``rtl``: ``latency`` in cycles and ``bandwidth`` in beats per cycle of external memory;
        ``netlist``, the file of a netlist that runs instead of the core's own Verilog; ``waves``,
        an FST file to write, with its first cycle and the one after its last.

    Raises
    ------
    DeviceError
        If there is no such device, or no simulator, or nothing responds on the port.
    """
    _require_name(name)
    if name == "machine":
        return MachineDevice(config, memory_bytes)
    if name == "rtl":
        from celosia.sim.rtl.waves import Waves
        from celosia.sw.runtime.rtl import RtlDriver

        waves = options.pop("waves", None)
        with simulator_errors("rtl"):
            return RtlDriver(
                config, memory_bytes=memory_bytes, waves=Waves(*waves) if waves else None, **options
            )
    from celosia.sw.runtime.litex import open_litex

    return open_litex(name.removeprefix(_LITEX), config, memory_bytes)


def open_pod(name: str, pod: PodConfig, memory_bytes: int, **options: Any) -> PodDevice:
    """Return a pod.

    Parameters
    ----------
    name, **options
        As in ``open_device``, but for ``netlist`` and ``waves``; ``latency`` and ``bandwidth`` are
        those of each memory port.
    pod : PodConfig
        Its sizes.
    memory_bytes : int
        External memory of each core.

    Raises
    ------
    DeviceError
        As ``open_device``.
    """
    _require_name(name)
    if name == "machine":
        return Cores([MachineDevice(pod.core, memory_bytes) for _ in range(pod.cores)])
    if name.startswith(_LITEX):
        from celosia.sw.runtime.litex import open_litex_pod

        return open_litex_pod(name.removeprefix(_LITEX), pod, memory_bytes)
    if unknown := [key for key in options if key not in ("latency", "bandwidth")]:
        raise DeviceError(f"{unknown[0]}: wanted one core, got {pod.cores}")
    from celosia.sw.runtime.rtl import RtlPodDriver

    with simulator_errors("rtl"):
        return RtlPodDriver(pod, memory_bytes=memory_bytes, **options)


def require_options(options: Iterable[str]) -> None:
    """Raise ValueError unless all options are those of a device."""
    names = "cores", "ports", *_OPTIONS
    for name in options:
        if name not in (*names, *_IGNORED):
            remedy = "; config is the core or the name of its preset" if name == "preset" else ""
            raise ValueError(f"options: wanted some of {', '.join(names)}, got {name!r}{remedy}")


def open_cores(
    name: str,
    config: Config,
    memory_bytes: int,
    *,
    cores: int = 1,
    ports: int = 1,
    **options: Any,
) -> PodDevice:
    """Return a pod, of one core or several; ``ports`` of memory are those of several.

    Other parameters and errors: see ``open_device``. Raises ``ValueError`` if there is no such pod,
    or no such option.
    """
    require_options(options)
    options = {key: value for key, value in options.items() if key in _OPTIONS}
    if cores == 1:
        return Cores([open_device(name, config, memory_bytes, **options)])
    return open_pod(name, PodConfig(config, cores, ports), memory_bytes, **options)
