"""Check of the counter classes of a program that ran to its end."""

from collections.abc import Mapping, Sequence

from celosia.hw.arch import commands
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Unit
from celosia.sim.check import footprint
from celosia.sim.check.schedule import bits, listing
from celosia.sim.timing.costs import bursts, work

#: Most cycles in which the vector unit prepares and starts an instruction. It also counts as busy
#: while the next one waits for it.
_PREPARE = 64


def busy(unit: Unit, own: Sequence[Instruction], config: Config) -> tuple[int, int]:
    """Return the least and the most busy cycles of a unit with a queue.

    ``unit``: the unit; ``own``: its instructions; ``config``: the core.
    """
    match unit:
        case Unit.MATRIX:
            least = greatest = sum(footprint.steps(i, config) * footprint.pixels(i) for i in own)
        case Unit.VECTOR:
            least = sum(work(i, config) for i in own)
            greatest = 2 * least + _PREPARE * len(own)
        case _:
            # Requests may take cycles besides the beats: of bursts for a load, of the bytes of each
            # beat for a store.
            rows = [row for i in own for row in bursts(i, config)]
            least, requests = sum(map(sum, rows)), sum(map(len, rows))
            greatest = least + requests + (least if unit is Unit.STORE else 0)
    return least, greatest


def misplaced(
    counters: Mapping[str, Mapping[str, int]], code: bytes, config: Config, runs: int = 1
) -> list[str]:
    """Return the errors in the classes of counters, as texts.

    ``counters``: cycles by class for each unit; ``code``: program that ran to its HALT so many
    times; ``config``: the core.
    """
    wrong = []
    program = listing(code, config).instructions
    ends = [number for number, word in enumerate(commands.words(code), 1) if commands.starts(word)]
    for unit in Unit:
        name, own = unit.name.lower(), [i for i in program if i.unit is unit]
        classes = counters[name]
        words = ends[len(program) - 1]
        least, greatest = (words, words) if unit is Unit.SEQUENCER else busy(unit, own, config)
        least, greatest = runs * least, runs * greatest
        if not least <= classes.get("busy", 0) <= greatest:
            wrong.append(f"{name}: wanted {least} to {greatest} busy, got {classes.get('busy', 0)}")
        may = {"busy", "memory", "drain"} | {f"semaphore_{s}" for i in own for s in bits(i.wait)}
        may |= {"weights"} if unit is Unit.MATRIX else set()
        may |= {"empty"} if unit is not Unit.SEQUENCER else set()
        if unit is not Unit.SEQUENCER and not own:
            may = {"empty"}
        wrong += [f"{name}: wanted no cycle of {key}" for key in classes if key not in may]
    return wrong
