"""Bitstreams of boards through LiteX: any target of litex-boards with LiteDRAM and a serial line."""

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from litex.soc.cores.uart import RS232PHY
from litex.soc.integration.builder import Builder

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.hw.build import verilog
from celosia.hw.flow import tools
from celosia.hw.flow.parts import PARTS
from celosia.hw.litex.system import describe, equip, quiet

#: Bits per second on the line.
BAUD = 3_000_000
#: File with the description of the system, for the host.
DESCRIPTION = "celosia.json"

#: Left out of a system without a processor.
_BARE = {
    "cpu_type": None,
    "with_uart": False,
    "integrated_sram_size": 0,
    "with_timer": False,
    "with_led_chaser": False,
}
#: Before synthesis, as in ``hw/flow/flow.py``: abc9 can take the bits of an array port for aliases
#: of one another (YosysHQ/yosys#4349), and copies of registers are to stay copies.
_BEFORE = [
    "hierarchy -top {build_name}",
    "proc",
    "opt_clean -purge",
    "setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i",
]
#: Programs that LiteX calls by these names.
_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")


@dataclass(frozen=True)
class Target:
    """A target of litex-boards, and the core on it.

    Parameters
    ----------
    module : str
        Module of ``litex_boards.targets``.
    config : Config
        Sizes of the core.
    clock_hz : int
        Frequency of core, bus and memory controller.
    part : str
        Name in ``hw/flow/parts.py``: decides the multipliers of the core.
    options : mapping
        Of the target's ``BaseSoC``.
    """

    module: str
    config: Config
    clock_hz: int
    part: str
    options: Mapping[str, Any] = field(default_factory=dict)


def _ulx3s(size: int, core: str, clock_hz: int) -> Target:
    # The memory runs at twice the clock: four bytes a cycle.
    options = {"device": f"LFE5U-{size}F", "sdram_rate": "1:2"}
    part = f"LFE5U-{size}F-CABGA381"
    return Target("radiona_ulx3s", preset(core), clock_hz, part, options)


#: What fits beside the memory controller where there are 56 block memories.
_SMALL = "nano,unified_bytes=65536,requantizer=sequential"

TARGETS = {
    "ulx3s-85f": _ulx3s(85, "micro", 60_000_000),
    "ulx3s-45f": _ulx3s(45, "micro", 60_000_000),
    "ulx3s-25f": _ulx3s(25, _SMALL, 50_000_000),
    "ulx3s-12f": _ulx3s(12, _SMALL, 50_000_000),
    "colorlight-i9": Target(
        "colorlight_i5",
        preset("micro"),
        60_000_000,
        "LFE5U-45F-CABGA381",
        {"board": "i9", "revision": "7.2"},
    ),
    "colorlight-i5": Target(
        "colorlight_i5", preset(_SMALL), 50_000_000, "LFE5U-25F-CABGA381", {"board": "i5"}
    ),
}


def make(target: Target, config: Config, baud: int = BAUD) -> Any:
    """Return the system of a target with a core of ``config``, not finished.

    Raises
    ------
    ValueError
        If the target has no LiteDRAM.
    """
    base: Any = importlib.import_module(f"litex_boards.targets.{target.module}").BaseSoC

    class System(base):
        """The target without a cache, which the core does not see, and without flash memory."""

        def add_sdram(self, name: str = "sdram", **options: Any) -> None:
            super().add_sdram(name, **{**options, "l2_cache_size": 0})

        def add_spi_flash(self, *_: Any, **__: Any) -> None:
            pass

    soc = System(**{**_BARE, **target.options, "sys_clk_freq": target.clock_hz})
    pads = soc.platform.request("serial")
    equip(soc, config, RS232PHY(pads, soc.sys_clk_freq, baud))
    return soc


def write(target: Target, directory: Path, config: Config | None = None) -> Path:
    """Write the sources of a system, and its description; return the script that builds it.

    Parameters
    ----------
    target : Target
        What is built.
    directory : Path
        Where everything goes: ``celosia.json``, and ``gateware`` with sources and script.
    config : Config, optional
        Sizes of the core, the target's own unless given.

    Raises
    ------
    ValueError
        If the target has no LiteDRAM.
    """
    config = PARTS[target.part].suited(config or target.config)
    gateware = directory.absolute() / "gateware"
    gateware.mkdir(parents=True, exist_ok=True)
    source = gateware / "celosia.v"
    source.write_text(verilog(config))
    with quiet():
        soc = make(target, config)
        soc.platform.add_source(str(source))
        toolchain = soc.platform.toolchain
        toolchain._yosys_cmds += _BEFORE
        toolchain._pnr_opts += f"--report {soc.platform.name}.report "
        Builder(soc, output_dir=str(directory)).build(run=False, abc9=True)
    script = gateware / f"build_{soc.platform.name}.sh"
    # Tools from PyPI do not see all folders: paths begin at that of the script.
    steps = gateware / f"{soc.platform.name}.ys"
    steps.write_text(steps.read_text().replace(f"{gateware}{os.sep}", ""))
    described = json.dumps(describe(soc, config, BAUD), indent=1)
    (directory / DESCRIPTION).write_text(described)
    return script


def build(script: Path) -> tuple[Path, dict[str, Any]]:
    """Make the bitstream of a system.

    Parameters
    ----------
    script : Path
        What ``write`` has returned for it.

    Returns
    -------
    tuple
        The bitstream; ``utilization`` and ``fmax`` as nextpnr reports them.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    with _named():
        tools.run("bash", [script.name], script.with_name("build.log"))
    name = script.with_name(script.stem.removeprefix("build_"))
    report = json.loads(name.with_suffix(".report").read_text())
    return name.with_suffix(".bit"), report


@contextmanager
def _named() -> Iterator[None]:
    """Let the tools be found by their plain names: those from PyPI have others."""
    before = os.environ["PATH"]
    with TemporaryDirectory() as folder:
        for name in _TOOLS:
            (Path(folder) / name).symlink_to(tools.find(name))
        os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before
