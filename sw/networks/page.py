"""Page and JSON of a table of networks."""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from celosia.sw.networks.comparison import Setting
from celosia.sw.networks.table import Network
from celosia.sw.networks.vela import ACCELERATOR

#: Lines of a page before and after the part that a command writes.
MARKS = "<!-- begin -->", "<!-- end -->"


def as_markdown(
    networks: Sequence[Network], settings: Sequence[Setting], *, inputs: int, seed: int
) -> str:
    """Return sentences, the table, and the files without bytes or cycles with the reason."""
    states = Counter(network.state for network in networks)
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    has_vela = any(network.vela for network in networks)
    sentences = (
        f"Files: {len(networks)}; {counts}. Random inputs of each: {inputs}, seed {seed}. They ran on "
        "the machine model, and every output byte is compared with LiteRT's reference kernels "
        "(BUILTIN_REF). Cycles are estimates of one inference, batch 1, of the core alone: "
        "operators on the host are left out."
    )
    memories = [
        textwrap.fill(f"- {_setting(setting)}", 100, subsequent_indent="  ") for setting in settings
    ]
    heads = ["file", "operators", "on the host", "MACs", "bytes"]
    heads += [f"{_column(setting)}" for setting in settings]
    rules = ["---", "---:", "---", "---:", "---", *("---:" for _ in settings)]
    if has_vela:
        heads.append(f"Vela, {ACCELERATOR}, cycles")
        rules.append("---:")
        sentences += f" {_ratio(networks)}"
    rows = [_row(network, settings, has_vela) for network in networks if network.cycles]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (heads, rules, *rows))
    parts = [textwrap.fill(sentences, 100), "\n".join(memories), table]
    for title, name in (("LiteRT does not run these", "failure"), ("Refused", "refusal")):
        others = [(e.file, getattr(e, name)) for e in networks if getattr(e, name)]
        if others:
            lines = [f"| `{file}` | {_cell(reason)} |" for file, reason in others]
            parts.append("\n".join(["| file | " + title + " |", "|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def into_page(text: str, page: str) -> str:
    """Return a page with a text between its marks, or the text alone for a page without marks."""
    before, found, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (found and end):
        return text
    return f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{after}"


def as_dict(
    networks: Sequence[Network], settings: Sequence[Setting], *, inputs: int, seed: int
) -> dict[str, Any]:
    """Return the figures; fields: ``docs/reference/json.md``."""
    return {
        "inputs": inputs,
        "seed": seed,
        "settings": [
            {
                "name": setting.name,
                "preset": setting.config.name,
                "latency": setting.latency,
                "bandwidth": setting.bandwidth,
                "clock_hz": setting.clock_hz,
            }
            for setting in settings
        ],
        "networks": [
            {
                "file": network.file,
                "state": network.state,
                "operators": network.operators,
                "host": network.host,
                "macs": network.macs,
                "host_macs": network.host_macs,
                "bytes_compared": network.compared,
                "bytes_different": network.different,
                "reason": network.refusal or network.failure,
                "cycles": network.cycles,
                "cycles_vela": network.vela,
            }
            for network in networks
        ],
    }


def _setting(setting: Setting) -> str:
    config = setting.config
    clock = f" at {setting.clock_hz / 1e6:g} MHz" if setting.clock_hz else ""
    return (
        f"{setting.name}: {config.rows} × {config.columns} multipliers{clock}; external memory: "
        f"{setting.latency} cycles of latency, {setting.bandwidth * config.bus_bytes:.3g} bytes a "
        "cycle"
    )


def _column(setting: Setting) -> str:
    return f"{setting.name}, {'ms' if setting.clock_hz else 'cycles'}"


def _row(network: Network, settings: Sequence[Setting], has_vela: bool) -> list[str]:
    result = f"{network.compared:,} equal"
    if network.failure:
        result = "not compared"
    elif network.different:
        result = f"{network.different:,} of {network.compared:,} differ"
    cells = [f"`{network.file}`", f"{network.operators:,}", ", ".join(network.host) or "–"]
    cells += [f"{network.macs:,}", result]
    for cycles, setting in zip(network.cycles, settings, strict=True):
        clock = setting.clock_hz
        cells.append(f"{cycles / clock * 1000:.3g}" if clock else f"{cycles:,}")
    if has_vela:
        cells.append("–" if network.vela is None else f"{network.vela:,}")
    return cells


def _ratio(networks: Sequence[Network]) -> str:
    """Return a sentence with Vela's cycles as multiples of those of the first setting."""
    ratios = [
        n.vela / n.cycles[0]
        for n in networks
        if n.vela and n.cycles and n.cycles[0] and not n.host_macs
    ]
    if not ratios:
        return ""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return (
        f"Vela's cycles for {ACCELERATOR} are {mean:.2f} times those of the first core: geometric "
        f"mean of {len(ratios)} files whose multiplications all run on the core. The least: "
        f"{min(ratios):.2f}."
    )


def _cell(text: str) -> str:
    """Return a text as Markdown has it in a cell."""
    return text.replace("|", "\\|")
