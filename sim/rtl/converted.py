"""Verilog of cores and pods, converted once: the user's cache keeps it."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.sim.rtl.verilate import cache_directory, once


def core_verilog(
    config: Config | PodConfig,
    *,
    simulated: bool = False,
    standard: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> str:
    """Return what ``celosia.hw.verilog.build.verilog`` returns.

    The text is converted if the cache has none for this state of the gateware and these sizes.
    ``report`` is called only then.
    """
    from celosia.hw.matrix.shared import is_large
    from celosia.hw.verilog import build

    core = config.core if isinstance(config, PodConfig) else config
    # Small arrays have no twin.
    simulated = simulated and is_large(core.rows, core.columns)
    # Cores that differ in their names alone have the same Verilog.
    sizes = asdict(config)
    sizes.get("core", sizes).pop("name")
    key = (build.sources_digest(whole=True), sizes, simulated, standard)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()
    target = cache_directory() / "verilog" / f"{digest[:32]}.v"

    def convert() -> None:
        text = build.verilog(config, simulated=simulated, standard=standard, report=report)
        target.write_text(text, encoding="utf-8")

    once(target, convert)
    return target.read_text(encoding="utf-8")
