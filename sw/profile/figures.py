"""A profile: estimated cycles of a model's layers, units and memory, as data and files."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sim.timing.costs import COSTS
from celosia.sw.compiler import report
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import LayerResult
from celosia.sw.compiler.report import Row
from celosia.sw.files import write_atomically
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.labels import labels
from celosia.sw.ir.program import Program
from celosia.sw.profile.buffer import Contents, contents
from celosia.sw.profile.estimates import Estimates, estimates
from celosia.sw.profile.events import LANES, Event, events
from celosia.sw.profile.losses import CAUSES, Causes, Stretch, causes, reason, stretches
from celosia.sw.runtime.opening import Shapes, core_of, graph_of


@dataclass(frozen=True)
class ProfiledLayer:
    """One layer of the core, or operator of the host."""

    row: Row  #: Its row of the report.
    label: str  #: Short name, no two the same.
    number: int  #: Number of the layer in the program, -1 on the host.
    causes: Causes  #: Cycles by reason, see ``CAUSES``; they sum to the cycles of the row.
    loss: str  #: Reason why it takes more cycles than its bound, as text.

    def as_dict(self) -> dict[str, Any]:
        """Return the figures that the report does not have."""
        return {"layer": self.row.layer, "label": self.label, "loss": self.loss, **self.causes}


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """One batch of a model over estimated cycles.

    ``save_html`` and ``save_trace`` write pictures, ``to_dict`` gives the figures. In a notebook a
    profile shows its page.
    """

    estimates: Estimates  #: Cycles of all sections.

    @property
    def program(self) -> Program:
        """The compiled program."""
        return self.estimates.compiled.program

    @property
    def total(self) -> Row:
        """Sum of the layers."""
        return self.estimates.rows[-1]

    @property
    def cycles(self) -> int:
        """Cycles of the batch."""
        sections = self.estimates.sections
        return sum(sections[section.address].total for section in self.program.per_batch)

    @property
    def results(self) -> list[LayerResult]:
        """Values that the layers compute, with the names of the model's tensors."""
        return self.estimates.compiled.results

    @cached_property
    def events(self) -> list[Event]:
        """Instructions of the batch, in program order."""
        return events(self.estimates)

    @cached_property
    def spans(self) -> list[report.Span]:
        """Cycles that count for each layer, in order, from the start of the batch."""
        return list(self.estimates.spans())

    @cached_property
    def stretches(self) -> list[Stretch]:
        """Cycles of the batch, in order and without a gap, each with its reason."""
        return stretches(self.events, self.program.config, self.estimates.costs)

    @cached_property
    def contents(self) -> Contents:
        """Lifetimes of the blocks of the unified buffer."""
        return contents(self.events, self.program.config)

    @cached_property
    def layers(self) -> list[ProfiledLayer]:
        """Layers of the core and operators of the host, in order."""
        rows, program = self.estimates.rows[:-1], self.program
        costs = self.estimates.costs
        losses = iter(causes(self.events, self.spans, len(program.layers), program.config, costs))
        result: list[ProfiledLayer] = []
        number = 0
        names = labels([row.layer for row in rows], [row.operator for row in rows])
        for row, label in zip(rows, names, strict=True):
            on_core = row.runs_on == "core"
            loss = next(losses) if on_core else dict.fromkeys(CAUSES, 0)
            where = number if on_core else -1
            result.append(ProfiledLayer(row, label, where, loss, reason(row, loss)))
            number += on_core
        return result

    @cached_property
    def busy(self) -> dict[str, int]:
        """Cycles in which each lane works."""
        return {lane: sum(e.cycles for e in self.events if e.lane == lane) for lane in LANES}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures: those of the report, and more. Fields: ``docs/reference/json.md``."""
        config, costs = self.program.config, self.estimates.costs
        used = self.contents.used(np.unique(self.contents.first))
        return self.estimates.as_dict() | {
            "instructions": len(self.events),
            "peak_macs_per_cycle": config.rows * config.columns,
            "peak_bytes_per_cycle": config.bus_bytes * costs.bandwidth,
            "units": {lane: {"busy": cycles} for lane, cycles in self.busy.items()},
            "losses": [layer.as_dict() for layer in self.layers],
            "buffer": {
                "bytes": config.unified_bytes,
                "block_bytes": self.contents.block_bytes,
                "peak_live_bytes": int(used.max(initial=0)),
            },
        }

    def save_html(self, path: str | Path) -> None:
        """Write the page, one file that needs no other."""
        write_atomically({path: self.to_html().encode()})

    def save_trace(self, path: str | Path) -> None:
        """Write the trace, which https://ui.perfetto.dev and chrome://tracing open."""
        from celosia.sw.profile.trace import as_trace

        write_atomically({path: as_trace(self).encode()})

    def to_html(self) -> str:
        """Return the page."""
        from celosia.sw.profile.page import as_html

        return as_html(self)

    def __repr__(self) -> str:
        program = self.program
        name = f"{program.name!r} on {program.config.name}, batch {program.batch}"
        return f"<Profile {name}: {self.total.cycles:,} cycles>"

    def _repr_html_(self) -> str:
        """Return a frame with the page, for notebooks."""
        from celosia.sw.profile.page import as_frame

        return as_frame(self)


def profile(
    model: str | Path | bytes | Graph,
    *,
    config: Config | str = "edge",
    batch: int = 1,
    latency: int = COSTS.memory,
    bandwidth: float = COSTS.bandwidth,
    clock_hz: float | None = None,
    signature: str | None = None,
    shapes: Shapes | None = None,
) -> Profile:
    """Compile a model and return the profile of one batch, without running it.

    Parameters
    ----------
    model : str, pathlib.Path, bytes or Graph
        A quantised ``.tflite`` or ``.onnx`` file, its contents, the name of a shipped model, or
        the graph of a network.
    config : Config or str
        The core, or its preset.
    batch : int
        Samples of one run.
    latency : int
        Cycles from a request to external memory to its first beat.
    bandwidth : float
        Beats of external memory per cycle, above 0 up to 2.
    clock_hz : float, optional
        Clock of the core in Hz: times and inferences per second follow from it.
    signature, shapes : optional
        As in ``celosia.compile``.

    Returns
    -------
    Profile
        The figures, with ``save_html``, ``save_trace`` and ``to_dict``.

    Raises
    ------
    ValueError
        If the model cannot be used or compiled (``ModelError``, ``CompileError``), or an option
        is out of range.
    """
    if clock_hz is not None and not clock_hz > 0:
        raise ValueError(f"clock_hz: wanted a clock above 0 Hz, got {clock_hz}")
    compiled = compile_steps(graph_of(model, signature, shapes), core_of(config), batch)
    return Profile(estimates(compiled, latency=latency, bandwidth=bandwidth, clock_hz=clock_hz))
