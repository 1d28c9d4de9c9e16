"""Costs of the runs of a program."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from celosia.hw.notebook import html_table
from celosia.sw.driver.core import RunResult
from celosia.sw.ir.program import Program
from celosia.sw.operators.work import host_work


class Statistics:
    """Costs of the runs of a program.

    Attributes
    ----------
    setup_cycles, cycles : int or None
        One-time load of constants that stay, and all other work; None on a device without clock. A
        program of several parts whose constants do not fit together loads those of each anew, and
        that counts as other work.
    inputs : int
        Samples computed, padding of the last batch not counted.
    setup_counters, counters : dict or None
        For each unit, cycles by class.
    seconds, host_seconds : float
        Host's time of the runs, without set-up, and that of its operators.
    array : str or None
        As in ``RunResult``.
    """

    def __init__(self, program: Program, cores: int = 1) -> None:
        self.program = program
        self.cores = cores
        self.array: str | None = None
        self.setup_cycles: int | None = None
        self.cycles: int | None = None
        self.inputs = 0
        self.seconds = self.host_seconds = 0.0
        self.setup_counters: dict[str, dict[str, int]] | None = None
        self.counters: dict[str, dict[str, int]] | None = None

    def add_setup(self, result: RunResult) -> None:
        """Count one section of the one-time load."""
        if result.cycles is not None:
            self.setup_cycles = (self.setup_cycles or 0) + result.cycles
        self.setup_counters = _sum(self.setup_counters, result.counters)

    def add(self, result: RunResult, inputs: int, seconds: float) -> None:
        """Count one run of the core, which completes ``inputs`` samples."""
        self.array = result.array or self.array
        if result.cycles is not None:
            self.cycles = (self.cycles or 0) + result.cycles
        self.counters = _sum(self.counters, result.counters)
        self.inputs += inputs
        self.seconds += seconds

    def add_host(self, seconds: float) -> None:
        """Count the time of an operator of the host."""
        self.seconds += seconds
        self.host_seconds += seconds

    @property
    def macs(self) -> int:
        """Multiplications of the core, for all inputs."""
        return self.program.macs * self.inputs

    @property
    def cycles_per_input(self) -> float | None:
        """Cycles of each input."""
        return self.cycles / self.inputs if self.cycles and self.inputs else None

    @property
    def utilisation(self) -> float | None:
        """Share of the multipliers' cycles that the model's multiplications take, 0 to 1."""
        config = self.program.config
        multipliers = self.cores * config.rows * config.columns
        return self.macs / (self.cycles * multipliers) if self.cycles else None

    def __repr__(self) -> str:
        cycles = "cycles not counted" if self.cycles is None else f"{self.cycles:,} cycles"
        return f"<Statistics of {self.program.name!r}: {self.inputs:,} inputs, {cycles}>"

    def _repr_html_(self) -> str:
        figures = self.as_dict().items()
        return html_table(repr(self), [row for row in figures if isinstance(row[1], int | float)])

    def as_dict(self) -> dict[str, Any]:
        """Return all figures under their names."""
        return {
            "model": self.program.name,
            "preset": self.program.config.name,
            "batch": self.program.batch,
            "cores": self.cores,
            "array": self.array,
            "setup_cycles": self.setup_cycles,
            "cycles": self.cycles,
            "inputs": self.inputs,
            "cycles_per_input": self.cycles_per_input,
            "macs": self.macs,
            "utilisation": self.utilisation,
            "seconds": self.seconds,
            "host": host_work(self.program)._asdict() | {"seconds": self.host_seconds},
            "counters": self.counters,
            "setup_counters": self.setup_counters,
        }


def _sum(
    total: dict[str, dict[str, int]] | None, more: Mapping[str, Mapping[str, int]] | None
) -> dict[str, dict[str, int]] | None:
    if more is None:
        return total
    result: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for counters in (total or {}, more):
        for unit, classes in counters.items():
            for name, cycles in classes.items():
                result[unit][name] += cycles
    return {unit: dict(classes) for unit, classes in result.items()}
