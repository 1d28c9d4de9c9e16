"""The page of MLPerf Tiny: tables and limits once, as Markdown, HTML or JSON."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celosia.sw.networks.comparison import Setting
from celosia_examples.mlperf.benchmark import Benchmark, ModelResult
from celosia_examples.mlperf.published import MODELS, PEERS, REPOSITORY

TITLE = "MLPerf Tiny"

_NAMES = [model.name for model in MODELS]

#: Limits that hold for every page.
_LIMITS = (
    "Simulated cycles are not a submission: no figure of Celosia here is a result of MLPerf Tiny, "
    "and MLCommons has not verified any. No board has run these models.",
    "The rate is the board's clock divided by the cycles of one inference at batch 1. The memory is "
    "modelled by its latency and bandwidth. The clock is the one that the build requests; not every "
    "seed of the placement reaches it.",
    "The one-time load of weights, operators on the host, and the transfer of inputs and outputs "
    "are left out. The published throughput is that of a whole device, measured by the harness of "
    "the benchmark.",
    "No accuracy was measured on the data sets. Equal bytes mean that Celosia computes what the "
    "reference kernels of LiteRT compute for these inputs, which are random.",
    "The systems differ in clock, memory, number of multipliers, technology and price. Cycles of "
    "a submission are its greatest listed clock divided by its throughput: an upper bound.",
    "The open division permits other networks: hls4ml and FINN did not run the models of the table.",
    "SWW counts one invocation of the model. The benchmark itself streams audio, and the features "
    "are computed outside the model.",
    "Energy was not measured.",
)


@dataclass(frozen=True)
class _Table:
    """A table with its title, a note, and the numbers of the columns that hold text."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: tuple[int, ...]


def _count(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _title(setting: Setting) -> str:
    clock = f" at {setting.clock_hz / 1e6:g} MHz" if setting.clock_hz else ""
    config = setting.config
    return f"{setting.name}: {config.rows} × {config.columns} multipliers{clock}, {setting.memory}"


def _results(setting: Setting, results: Sequence[ModelResult]) -> _Table:
    """Return the table of one setting."""
    heads = ["model", "file", "on the host", "MACs", "bytes compared", "bytes that differ"]
    heads += ["bound", "cycles, estimate", "cycles, RTL", "multipliers in use", "inferences/s"]
    rows = [
        [
            result.model.name,
            result.model.file if result.published else f"{result.model.file} (another file)",
            ", ".join(result.host) or "–",
            *map(_count, (result.macs, result.compared, result.different, result.bound)),
            *map(_count, (result.estimated, result.counted)),
            f"{result.utilisation:.1%}",
            _count(result.pace),
        ]
        for result in results
    ]
    note = (
        f"External memory: {setting.latency} cycles of latency, "
        f"{setting.bandwidth * setting.config.bus_bytes:.3g} bytes a cycle."
    )
    return _Table(_title(setting), note, heads, rows, (0, 1, 2))


def _of_models(values: dict[str, Any], digits: int) -> list[str]:
    return [_count(values.get(name), digits) for name in _NAMES]


def _own(benchmark: Benchmark, setting: Setting) -> list[str]:
    """Return the first cells of a row of Celosia."""
    clock = f"{setting.clock_hz / 1e6:g}" if setting.clock_hz else "–"
    how = "RTL" if benchmark.device == "rtl" else "estimate"
    return [f"Celosia, {setting.name}", f"simulated: {how}", clock]


def _rates(benchmark: Benchmark) -> _Table:
    """Return inferences per second beside the published ones."""
    rows = [
        [*_own(benchmark, setting), *_of_models({r.model.name: r.pace for r in results}, 0), "–"]
        for setting, results in benchmark.by_setting.items()
        if setting.clock_hz
    ]
    rows += [
        [peer.name, peer.note, _count(peer.clock_mhz), *_of_models(dict(peer.throughput), 0)]
        + [peer.source]
        for peer in PEERS
        if peer.throughput
    ]
    heads = ["system", "remark", "clock, MHz", *_NAMES, "source"]
    note = "Closed division and measured, unless the remark differs."
    return _Table("Inferences per second beside published results", note, heads, rows, (0, 1, 8))


def _cycles(benchmark: Benchmark) -> _Table:
    """Return thousands of cycles beside those of others."""
    rows = [
        [
            *_own(benchmark, setting),
            *_of_models({r.model.name: r.cycles / 1000 for r in results}, 1),
        ]
        for setting, results in benchmark.by_setting.items()
    ]
    rows += [
        [
            peer.name,
            "clock / throughput" if peer.throughput else peer.source,
            _count(peer.clock_mhz),
            *_of_models({name: cycles / 1000 for name, cycles in peer.cycles.items()}, 0),
        ]
        for peer in PEERS
        if peer.cycles
    ]
    heads = ["system", "cycles", "clock, MHz", *_NAMES]
    title = "Thousands of cycles of one inference beside others"
    return _Table(title, "", heads, rows, (0, 1))


def _setting(benchmark: Benchmark) -> str:
    """Return the paragraph before the tables."""
    tasks = ", ".join(f"{model.name} ({model.task})" for model in MODELS)
    where = {"machine": "machine model", "rtl": "simulated core (RTL)"}[benchmark.device]
    others = sorted({r.model.file for r in benchmark.results if not r.published})
    files = "They are the published files, by SHA-256"
    if others:
        files = f"Not the published files, by SHA-256: {', '.join(others)}"
    return (
        f"Models of {REPOSITORY}: {tasks}. {files}. Each ran on {benchmark.inputs} random inputs "
        f"(seed {benchmark.seed}) on the {where}; every output byte is compared with LiteRT's "
        "reference kernels (BUILTIN_REF). Batch 1. Utilisation and rates are those of "
        f"{'cycles counted by the RTL' if benchmark.device == 'rtl' else 'estimated cycles'}."
    )


def _tables(benchmark: Benchmark) -> list[_Table]:
    own = [_results(setting, results) for setting, results in benchmark.by_setting.items()]
    return [*own, _rates(benchmark), _cycles(benchmark)]


def as_markdown(benchmark: Benchmark) -> str:
    """Return the page without its title: sections with tables, and the limits."""
    parts = [textwrap.fill(_setting(benchmark), 100)]
    for table in _tables(benchmark):
        rule = ["---" if n in table.text else "---:" for n in range(len(table.heads))]
        rows = [[_linked(cell) for cell in row] for row in table.rows]
        lines = [f"| {' | '.join(row)} |" for row in (table.heads, rule, *rows)]
        note = [table.note] if table.note else []
        parts += [f"## {table.title}", *note, "\n".join(lines)]
    limits = [textwrap.fill(f"- {limit}", 100, subsequent_indent="  ") for limit in _LIMITS]
    return "\n\n".join([*parts, "## Limits of the comparison", "\n".join(limits)]) + "\n"


def _linked(cell: str) -> str:
    return f"[{_repository(cell)}]({cell})" if cell.startswith("https:") else cell


def _repository(address: str) -> str:
    """Return the name of the repository of a web address."""
    return address.split("/")[4]


def as_html(benchmark: Benchmark) -> str:
    """Return the page as HTML that needs no other file."""
    from celosia.sw.profile.page import environment

    templates = environment(Path(__file__).parent)
    templates.filters["repository"] = _repository
    return templates.get_template("page.html").render(
        title=TITLE, setting=_setting(benchmark), tables=_tables(benchmark), limits=_LIMITS
    )


def as_dict(benchmark: Benchmark) -> dict[str, Any]:
    """Return the figures; fields: ``docs/reference/json.md``."""
    return {
        "device": benchmark.device,
        "inputs": benchmark.inputs,
        "seed": benchmark.seed,
        "settings": [_setting_dict(*item) for item in benchmark.by_setting.items()],
        "peers": [peer._asdict() for peer in PEERS],
        "limits": list(_LIMITS),
    }


def _setting_dict(setting: Setting, results: Sequence[ModelResult]) -> dict[str, Any]:
    return {
        "name": setting.name,
        "preset": setting.config.name,
        "memory": setting.memory,
        "latency": setting.latency,
        "bandwidth": setting.bandwidth,
        "clock_hz": setting.clock_hz,
        "models": [
            {
                "model": result.model.name,
                "file": result.model.file,
                "published": result.published,
                "host": result.host,
                "macs": result.macs,
                "bytes_compared": result.compared,
                "bytes_different": result.different,
                "bound": result.bound,
                "cycles": result.cycles,
                "cycles_estimated": result.estimated,
                "cycles_counted": result.counted,
                "utilisation": result.utilisation,
                "inferences_per_second": result.pace,
            }
            for result in results
        ],
    }
