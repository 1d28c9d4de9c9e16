"""A LiteX system made one with a core or a pod, and what a host must know of it."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litedram.frontend.axi import LiteDRAMAXI2Native
from litedram.init import get_sdram_phy_init_sequence
from litex.soc.integration.export import get_csr_json
from litex.soc.integration.soc import SoCRegion
from migen import ResetSignal
from migen.genlib.resetsync import AsyncResetSynchronizer

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PAGE, PodConfig
from celosia.hw.litex.bridge import Bridge
from celosia.hw.litex.core import Celosia
from celosia.hw.litex.port import Skidded, port_of
from celosia.hw.litex.processor import describe_processor, is_held

#: Address of the core's registers on the bus of the system, where no processor caches.
_REGISTERS = 0xE0000000
#: Lines of the chip by the bits of DFI, as LiteDRAM's start-up sequences name them.
_LINES = {
    "DFII_CONTROL_CKE": 2,
    "DFII_CONTROL_ODT": 4,
    "DFII_CONTROL_RESET_N": 8,
    "DFII_COMMAND_CS": 1,
    "DFII_COMMAND_WE": 2,
    "DFII_COMMAND_CAS": 4,
    "DFII_COMMAND_RAS": 8,
}
#: The memory controller, no longer the host, drives the chip.
_HARDWARE = 1
#: The PHYs whose reads the host can level, and their registers for that.
_LEVELLED = ("ECP5DDRPHY", "GW2DDRPHY")
_LEVELLING = (
    "dly_sel",
    "rdly_dq_rst",
    "rdly_dq_inc",
    "rdly_dq_bitslip_rst",
    "rdly_dq_bitslip",
    "burstdet_clr",
    "burstdet_seen",
)


def require_memory(soc: Any) -> None:
    """Raise ValueError if a system has no memory that a core can use without a BIOS."""
    if not hasattr(soc, "sdram"):
        raise ValueError("soc: wanted a system with LiteDRAM, got none")
    if hasattr(soc, "l2_cache"):
        raise ValueError("soc: wanted a system without L2 cache, got one; the core bypasses it")
    phy = soc.sdram.controller.settings.phy
    trains = soc.cpu_type and not is_held(soc)
    if phy.memtype != "SDR" and phy.phytype not in _LEVELLED and not trains:
        raise ValueError(
            f"soc: wanted SDR or {' or '.join(_LEVELLED)} without a processor that trains the memory,"
            f" got {phy.memtype} behind {phy.phytype}"
        )


def equip(soc: Any, config: Config | PodConfig, line: Any, clock: Any = None) -> None:
    """Add a core or a pod, and the bridge of the host's line, to a system.

    Parameters
    ----------
    soc : SoCCore
        System with LiteDRAM as ``sdram``, without an L2 cache.
    config : Config or PodConfig
        Sizes.
    line : module
        The line: streams ``source`` and ``sink`` of bytes, as ``UARTPHY`` of LiteX has.
    clock : ClockDomain, optional
        Clock of the core alone; otherwise it has that of the system. It gets the system's reset.

    Raises
    ------
    ValueError
        If the system has no LiteDRAM, a cache that the core does not see, or a memory that only a
        processor can start; or if it has a processor and a pod.
    """
    require_memory(soc)
    cores = config.cores if isinstance(config, PodConfig) else 1
    if cores > 1 and soc.cpu_type:
        raise ValueError(f"soc: wanted one core beside a processor, got {cores}")
    if clock is not None:
        soc.cd_core = clock
        soc.specials += AsyncResetSynchronizer(clock, ResetSignal("sys"))
    soc.celosia = core = Celosia(config, "sys" if clock is None else clock.name)
    for n, memory in enumerate(core.memories):
        name = f"celosia_{n}" if n else "celosia"
        port, skid = port_of(soc, memory.data_width, name), Skidded(memory)
        soc.add_module(f"{name}_skid", skid)
        soc.add_module(f"{name}_memory", LiteDRAMAXI2Native(skid.bus, port))
    # A page for each core, and one of the pod.
    pages = 2 * cores if cores > 1 else 1
    region = SoCRegion(origin=_REGISTERS, size=pages * PAGE, cached=False)
    soc.bus.add_slave("celosia", core.registers, region)
    soc.celosia_line, soc.celosia_bridge = line, Bridge(line)
    soc.bus.add_master("celosia_bridge", soc.celosia_bridge.bus)
    if soc.irq.enabled:
        soc.irq.add("celosia", use_loc_if_exists=True)


def describe(
    soc: Any, config: Config | PodConfig, baud: int, clock_hz: float | None = None
) -> dict[str, Any]:
    """Return what a host must know of a finished system, see ``docs/how-to/litex.md``.

    ``clock_hz``: that of a core with its own.
    """
    exported = json.loads(get_csr_json(soc.csr_regions, soc.constants, soc.mem_regions))
    registers = {name: entry["addr"] for name, entry in exported["csr_registers"].items()}
    memory, settings = exported["memories"]["main_ram"], soc.sdram.controller.settings
    processor = describe_processor(soc, registers)
    alone = soc.cpu_type and not processor
    clocks = {"core": clock_hz or soc.sys_clk_freq, "bus": soc.sys_clk_freq}
    core, cores = (config.core, config.cores) if isinstance(config, PodConfig) else (config, 1)
    return {
        "preset": core.name,
        "fingerprint": core.fingerprint,
        "cores": cores,
        "baud": baud,
        "clocks": clocks,
        "memory": memory["base"],
        "memory_bytes": memory["size"],
        "registers": _REGISTERS,
        # A processor that nobody holds starts the memory itself.
        "start": [] if alone else _start(settings, registers, soc.sys_clk_freq),
        "levelling": {} if alone else _levelling(settings.phy, registers),
        "processor": processor,
    }


def _levelling(phy: Any, registers: dict[str, int]) -> dict[str, int]:
    """Return sizes and registers of a PHY whose reads the host must level, nothing for others."""
    if phy.phytype not in _LEVELLED:
        return {}
    addresses = {name: registers[f"ddrphy_{name}"] for name in _LEVELLING}
    return {"lanes": phy.strobes, "delays": phy.delays, "bitslips": phy.bitslips, **addresses}


def _start(settings: Any, registers: dict[str, int], hertz: float) -> list[tuple[int, int, float]]:
    """Return addresses and values that start the memory chip, and seconds to wait after each."""

    def bits(text: str) -> int:
        return sum(_LINES[name] for name in text.split("|"))

    sequence, _ = get_sdram_phy_init_sequence(settings.phy, settings.timing)
    control = registers["sdram_dfii_control"]
    writes = []
    for _, address, bank, command, cycles in sequence:
        lines = [("address", address), ("baddress", bank)]
        writes += [(registers[f"sdram_dfii_pi0_{name}"], value, 0.0) for name, value in lines]
        if "CONTROL" in command:
            writes.append((control, bits(command), cycles / hertz))
        else:
            writes.append((registers["sdram_dfii_pi0_command"], bits(command), 0.0))
            issue = registers["sdram_dfii_pi0_command_issue"]
            writes.append((issue, 1, cycles / hertz))
    return [*writes, (control, _HARDWARE, 0.0)]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back the hundreds of lines in which LiteX describes what it makes."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
