"""Coverage of random programs: instructions, overlaps with other units, fields, errors."""

from collections import Counter
from typing import Any

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import EXECUTING, FORMATS, Instruction, Opcode, Unit
from celosia.sim.check.schedule import listing
from celosia.sim.timing.cycles import COSTS, Cost, estimate
from celosia.sw.fuzz.case import CHANNELS, Case
from celosia.sw.fuzz.trial import Trial

STATES = ("busy", "waiting", "idle")
STALLS = ("none", *CHANNELS)
_OPCODES = [opcode for opcode in Opcode if isa.UNITS[opcode] in EXECUTING]


class Coverage:
    """Counts over many cases.

    Attributes
    ----------
    instructions
        Instructions by opcode.
    overlaps
        States of the other units at the start of an instruction, by the estimate of its program,
        and the channels of the bus with pauses.
    fields
        Levels of fields among the allowed values: ``least``, ``greatest``, ``between``.
    activities
        Programs in which a counter of the core was not zero.
    ends
        How programs ended.
    checked
        Comparisons: ``memory``, byte for byte; ``end``, the error or HALT; ``nothing``, only that
        the core stops.
    """

    def __init__(self) -> None:
        self.instructions: Counter[str] = Counter()
        self.overlaps: Counter[tuple[str, str, str, str]] = Counter()
        self.fields: Counter[tuple[str, str, str]] = Counter()
        self.activities: Counter[tuple[str, str]] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self.checked: Counter[tuple[str, str]] = Counter()

    def add(self, other: "Coverage") -> None:
        """Add the counts of another one."""
        for name, counts in vars(other).items():
            getattr(self, name).update(counts)

    def note(self, kind: str, case: Case, trial: Trial) -> None:
        """Count the events of a case; instructions only if all of them ran."""
        outcome = trial.outcome
        code, unit = (outcome.error[0].name, outcome.error[1].name) if outcome.error else ("", "")
        end = f"{code} of {unit}" if outcome.error else "done" if outcome.finished else "stopped"
        self.ends[kind, end] += 1
        expected = trial.expected
        checked = "memory" if expected.exact else "end" if expected.ends is not None else "nothing"
        self.checked[kind, checked] += 1
        for name, counts in (outcome.counters or {}).items():
            self.activities.update((name, activity) for activity in counts)
        if not trial.expected.exact:
            return
        instructions = listing(case.code, case.config).instructions
        self.instructions.update(i.opcode.name for i in instructions)
        for i in instructions:
            self._fields(i, case.config)
        costs = COSTS._replace(memory=case.bus.latency, bandwidth=case.bus.bandwidth)
        times = estimate(instructions, case.config, costs).instructions
        for cost in times:
            if cost.unit is not Unit.SEQUENCER:
                self._overlaps(instructions[cost.index].opcode.name, cost, times, case.bus.stalls)

    def _fields(self, i: Instruction, config: Config) -> None:
        limits = isa.limits(config)[i.opcode]
        for name, (low, high, _) in limits.items():
            value = i.fields[name]
            level = "least" if value == low else "greatest" if value == high else "between"
            self.fields[i.opcode.name, name, level] += 1

    def _overlaps(
        self, name: str, cost: Cost, times: tuple[Cost, ...], stalls: tuple[str, ...]
    ) -> None:
        for unit in EXECUTING:
            if unit is not cost.unit:
                state = _state(unit, cost, times)
                for stall in stalls:
                    self.overlaps[name, unit.name.lower(), state, stall] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return all counts for JSON, keys joined by spaces."""
        result: dict[str, Any] = {"bins": self.bins()}
        for name, counts in vars(self).items():
            keys = {key if isinstance(key, str) else " ".join(key): n for key, n in counts.items()}
            result[name] = dict(sorted(keys.items()))
        return result

    def bins(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of covered and of all bins, for overlaps and for fields."""
        overlaps = (len(EXECUTING) - 1) * len(STATES) * len(STALLS) * len(_OPCODES)
        fields = sum(_bins(field) for opcode in _OPCODES for field in FORMATS[opcode])
        return {"overlaps": (len(self.overlaps), overlaps), "fields": (len(self.fields), fields)}

    def as_text(self) -> str:
        """Return a table of the covered and of all bins of each instruction."""
        header = f"{'instruction':<13}{'run':>8}"
        header += "".join(f"{'beside ' + unit.name.lower():>16}" for unit in EXECUTING)
        lines = [header + f"{'fields':>10}"]
        for opcode in _OPCODES:
            name = opcode.name
            line = f"{name:<13}{self.instructions[name]:>8}"
            for unit in EXECUTING:
                met = sum(key[:2] == (name, unit.name.lower()) for key in self.overlaps)
                bins = len(STATES) * len(STALLS)
                line += f"{'-' if isa.UNITS[opcode] is unit else f'{met}/{bins}':>16}"
            met = sum(key[0] == name for key in self.fields)
            bins = sum(_bins(field) for field in FORMATS[opcode])
            lines.append(line + f"{f'{met}/{bins}':>10}")
        lines.append("")
        for name, counts in (("ends", self.ends), ("model checks", self.checked)):
            total = Counter[str]()
            for (_, value), count in counts.items():
                total[value] += count
            counted = ", ".join(f"{count} {value}" for value, count in total.most_common())
            lines.append(f"{name}: {counted}")
        return "".join(line + "\n" for line in lines)


def _bins(field: isa.Field) -> int:
    """Return the number of bins of a field's range: two ends, and the values between."""
    low, high = field.representable
    return min(3, high - low + 1)


def _state(unit: Unit, cost: Cost, times: tuple[Cost, ...]) -> str:
    """Return the state of a unit at the start of the instruction of ``cost``."""
    of_unit = [other for other in times if other.unit is unit]
    if any(other.start <= cost.start < other.finish for other in of_unit):
        return "busy"
    before = any(other.index < cost.index and other.start > cost.start for other in of_unit)
    return "waiting" if before else "idle"
