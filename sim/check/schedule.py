"""Order in which instructions run: dispatch, queues and semaphores, without their effects."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import MOST_COUNT, SEMAPHORES, Config

Program = Sequence[isa.Instruction] | bytes


def describe(index: int, instruction: isa.Instruction) -> str:
    """Return the index and assembly of an instruction, for messages."""
    return f"instruction {index} ({isa.disassemble(instruction)})"


class MachineError(RuntimeError):
    """Error of a program that stops the core.

    - ``error``: code that the core records.
    - ``unit``: unit that noticed it.
    - ``index``: index of the instruction in the program.
    """

    def __init__(self, error: isa.Error, unit: isa.Unit, index: int, message: str) -> None:
        super().__init__(f"{error.name} in {unit.name}: {message}")
        self.error = error
        self.unit = unit
        self.index = index


@lru_cache(maxsize=1 << 12)
def bits(mask: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


@dataclass(frozen=True)
class Listing:
    """Instructions of a program up to the one that cannot be dispatched."""

    #: In program order; ends with HALT, or before the instruction that ``failure`` names.
    instructions: tuple[isa.Instruction, ...]
    failure: MachineError | None  #: Error of the sequencer at the instruction after the last.


def listing(program: Program, config: Config) -> Listing:
    """Decode and check a program as the sequencer of a core of ``config`` does.

    Raises ValueError if the bytes of a program are not whole words.
    """
    instructions: list[isa.Instruction] = []

    def stopped(error: isa.Error, message: str) -> Listing:
        failure = MachineError(error, isa.Unit.SEQUENCER, len(instructions), message)
        return Listing(tuple(instructions), failure)

    decoder = commands.Decoder(config)
    for one in commands.words(program) if isinstance(program, bytes) else program:
        try:
            instruction = decoder.feed(one) if isinstance(one, int) else one
            if instruction is None:
                continue
            isa.check(instruction, config)
        except isa.Illegal as illegal:
            return stopped(illegal.error, f"instruction {len(instructions)}: {illegal}")
        instructions.append(instruction)
        if instruction.opcode is isa.Opcode.HALT:
            return Listing(tuple(instructions), None)
    return stopped(isa.Error.PROGRAM, f"no HALT in {len(instructions)} instructions")


@dataclass(frozen=True)
class Schedule:
    """One order in which a program may run."""

    order: tuple[int, ...]  #: Indices of the instructions that run, in this order.
    #: Error that stops the program after them; None if HALT is reached.
    failure: MachineError | None
    counts: tuple[int, ...]  #: Counts of the semaphores at the end.


class _Stop(Exception):
    """The program cannot go on."""


class _Dispatcher:
    """Semaphore counts and queues while a program is dispatched."""

    def __init__(self, listed: Listing, depth: int) -> None:
        self.listed = listed
        self.depth = depth
        self.counts = [0] * SEMAPHORES
        self.queues: dict[isa.Unit, deque[int]] = {unit: deque() for unit in isa.EXECUTING}
        self.order: list[int] = []

    def stop(self, error: isa.Error, unit: isa.Unit, index: int, why: str) -> _Stop:
        instruction = describe(index, self.listed.instructions[index])
        return _Stop(MachineError(error, unit, index, f"{instruction} {why}"))

    def execute(self, index: int) -> bool:
        """Run an instruction if its semaphores allow it; return True if they did."""
        instruction = self.listed.instructions[index]
        waits = bits(instruction.fields["wait"])
        for s in waits:
            if not self.counts[s]:
                return False
        for s in waits:
            self.counts[s] -= 1
        if instruction.opcode in (isa.Opcode.FENCE, isa.Opcode.HALT):
            self.advance()
            if any(self.queues.values()):
                raise self.deadlock(index)
        self.order.append(index)
        for s in bits(instruction.fields["post"]):
            self.counts[s] += 1
            if self.counts[s] > MOST_COUNT:
                why = f"posts semaphore {s} past {MOST_COUNT}"
                raise self.stop(isa.Error.SEMAPHORE, isa.Unit.SEQUENCER, index, why)
        return True

    def advance(self) -> None:
        """Run the heads of all queues in turn until none can go on."""
        moved = True
        while moved:
            moved = False
            for queue in self.queues.values():
                if queue and self.execute(queue[0]):
                    queue.popleft()
                    moved = True

    def deadlock(self, index: int) -> _Stop:
        """Return the error of a program that is stuck at the dispatch of ``index``."""
        for unit, queue in self.queues.items():
            if queue:
                return self.stuck(unit, queue[0])
        return self.stuck(isa.Unit.SEQUENCER, index)

    def stuck(self, unit: isa.Unit, index: int) -> _Stop:
        wait = self.listed.instructions[index].wait
        missing = [str(s) for s in bits(wait) if not self.counts[s]]
        why = f"waits for ever for semaphore {' and '.join(missing)}"
        return self.stop(isa.Error.WATCHDOG, unit, index, why)

    def dispatch(self, index: int) -> None:
        unit = self.listed.instructions[index].unit
        if unit is isa.Unit.SEQUENCER:
            if not self.execute(index):
                raise self.deadlock(index)
        else:
            if len(self.queues[unit]) == self.depth:
                raise self.deadlock(index)
            self.queues[unit].append(index)
        self.advance()


def schedule(listed: Listing, depth: int) -> Schedule:
    """Return the order of a program's instructions if every unit starts as early as possible.

    ``depth``: instructions that may wait in the queue of one unit.
    """
    dispatcher = _Dispatcher(listed, depth)
    failure = None
    try:
        for index in range(len(listed.instructions)):
            dispatcher.dispatch(index)
        failure = listed.failure
    except _Stop as stop:
        (failure,) = stop.args
    return Schedule(tuple(dispatcher.order), failure, tuple(dispatcher.counts))
