"""Machine model: runs programs instruction by instruction, and so defines their meaning."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from celosia.hw.arch.config import ADDRESS_BITS, PARAMETER_BYTES, TABLE_BYTES, Config
from celosia.hw.arch.isa import Error, Instruction, Kind, Mode, Opcode, Rounding, Space, Window
from celosia.hw.arch.registers import BOUND_BITS
from celosia.sim.check import footprint, hazards
from celosia.sim.check.footprint import Memory
from celosia.sim.check.schedule import MachineError, Program, describe, listing, schedule
from celosia.sim.check.vector import in_order_matters
from celosia.sim.model import quantize

#: One channel of the parameter memory.
CHANNEL = np.dtype([("bias", "<i4"), ("multiplier", "<u4"), ("left", "u1"), ("right", "u1")])

#: Layout of a channel in external memory.
_EXTERNAL_CHANNEL = np.dtype(
    {
        "names": ["bias", "multiplier", "left", "right"],
        "formats": ["<i4", "<u4", "u1", "u1"],
        "offsets": [0, 4, 8, 9],
        "itemsize": PARAMETER_BYTES,
    }
)

#: Sums of products of int8 below this many taps fit the 24 bits of a float32 exactly.
_FLOAT32_TAPS = (1 << 24) >> 14

#: Programs kept ready to run again.
_CACHE = 64

#: Requantisers kept ready, at most.
_MOST_REQUANTIZERS = 1 << 12

#: Limits of the model: elements of MATMUL; groups of a VECTOR that run one after the other;
#: elements of other instructions, or twice their memory if that is more, and for VECTOR times this
#: many elements of a window.
_LONG_MATMUL = 1 << 26
_LONG_IN_ORDER = 1 << 18
_LONG = 1 << 20
_LONG_WINDOW = 64

#: Instructions whose limits keep them short enough.
_SHORT = {Opcode.LOAD_WEIGHTS, Opcode.LOAD_PARAMS, Opcode.MOVE_WEIGHTS, Opcode.SOFTMAX}

Step = Callable[[], None]
_Values = np.ndarray | np.int64
_Channels = tuple[_Values, _Values, _Values, _Values]


class TooLong(RuntimeError):
    """Instruction that a core would run, but that is too long for the model."""


class _Prepared:
    """Program ready to run: a step for each instruction, in the order of the schedule."""

    def __init__(self, machine: "Machine", program: Program) -> None:
        self.listed = listing(program, machine.config)
        self.schedule = schedule(self.listed, machine.config.queue_depth)
        self.steps: list[Step] = [
            machine._step(index, self.listed.instructions[index]) for index in self.schedule.order
        ]
        self.checked = False
        self.finished = False


class Machine:
    """Model of a core with its external memory, as the host sees them.

    ``config``: sizes of the core; ``memory_bytes``: bytes of external memory, at least 1;
    ``memory``: external memory; the host reads and writes it freely; ``bounds``: its first and last
    byte that programs may touch, as in the registers ``memory_base`` and ``memory_limit``;
    ``tables``: memories of the core; write to them in place; ``written``: addresses written by the
    programs that have run so far; ``watch``: called before each instruction that runs, with its
    index in the program; may read all memories.
    Raises ``ValueError`` if ``memory_bytes`` is less than 1.
    """

    def __init__(self, config: Config, *, memory_bytes: int = 1 << 24) -> None:
        if memory_bytes < 1:
            raise ValueError(f"memory_bytes: wanted at least 1, got {memory_bytes}")
        self.config = config
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.bounds: tuple[int, int] = 0, (1 << ADDRESS_BITS) - 1
        self.unified = np.zeros(config.unified_bytes, np.int8)
        self.weights = np.zeros((config.weight_tiles, config.rows, config.columns), np.int8)
        self.accumulators = np.zeros((config.accumulator_rows, config.columns), np.int32)
        self.parameters = np.zeros(config.parameter_channels, CHANNEL)
        self.tables = np.zeros((config.table_slots, TABLE_BYTES), np.int8)
        self.written = hazards.Written(config)
        self.watch: Callable[[int, Instruction], None] | None = None
        self._sums = self.accumulators.reshape(-1)
        self._bytes = self.unified.view(np.uint8)
        self._prepared: OrderedDict[object, _Prepared] = OrderedDict()
        self._requantizers: dict[object, quantize.Requantizer] = {}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """Copies of all memories, by the name of their attribute."""
        names = ("memory", "unified", "weights", "accumulators", "parameters", "tables")
        return {name: getattr(self, name).copy() for name in names}

    def run(self, program: Program, *, check: bool = False) -> None:
        """Run a program to its HALT.

        Every unit runs its instructions in order, as early as semaphores allow; all semaphores
        start at zero. A program that ran before is not decoded or checked again.

        ``program``: ends with HALT; instructions after HALT are ignored; ``check``: refuse the
        program before it starts if ``check_hazards`` finds a hazard, given the addresses that
        earlier programs wrote.
        Raises ``MachineError`` if the core would stop with an error. Effects of earlier
        instructions remain; the failing instruction has none.
        Raises ``hazards.Hazard`` if ``check`` is set and the program has a hazard.
        Raises ``TooLong`` if an instruction touches the same addresses so often that its run would
        seem endless. Effects of earlier instructions remain.
        """
        key = self.bounds, program if isinstance(program, bytes) else tuple(program)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _Prepared(self, program)
            if len(self._prepared) > _CACHE:
                self._prepared.popitem(last=False)
        if check and not prepared.checked:
            hazards.check_hazards(program, self.config, initial=self.written)
            prepared.checked = True
        for index, step in zip(prepared.schedule.order, prepared.steps, strict=True):
            if self.watch:
                self.watch(index, prepared.listed.instructions[index])
            step()
        if prepared.schedule.failure:
            raise prepared.schedule.failure
        if not prepared.finished:
            for instruction in prepared.listed.instructions:
                self.written.add(footprint.touches(instruction, self.config))
            prepared.finished = True

    def _step(self, index: int, instruction: Instruction) -> Step:
        """Return the action of an instruction; the action raises if it cannot run."""

        def failing(error: Error, why: str) -> Step:
            message = f"{describe(index, instruction)}: {why}"

            def fail() -> None:
                raise MachineError(error, instruction.unit, index, message)

            return fail

        try:
            touches = footprint.touches(instruction, self.config)
        except footprint.OutOfRange as wrong:
            return failing(Error.RANGE, str(wrong))
        first, last = self._bounds()
        for memory, _, pattern in touches:
            if memory is Memory.EXTERNAL and pattern.last > last:
                why = f"wanted external memory up to byte {last}, got {pattern.last}"
                return failing(Error.BUS, why)
            if memory is Memory.EXTERNAL and pattern.base < first:
                why = f"wanted external memory from byte {first} on, got {pattern.base}"
                return failing(Error.BUS, why)
        return self._too_long(index, instruction) or self._action(instruction)

    def _bounds(self) -> tuple[int, int]:
        """Return the first and the last byte of external memory that there is for programs."""
        pages = (1 << BOUND_BITS) - 1
        first, last = self.bounds
        return first & ~pages, min(last | pages, self.memory.size - 1)

    def _too_long(self, index: int, i: Instruction) -> Step | None:
        """Return a step that refuses an instruction with too many elements, or None."""
        if i.opcode in _SHORT:
            return None
        work = footprint.work(i, self.config)
        limit = max(_LONG, 2 * self.config.unified_bytes, 2 * self._sums.size)
        if i.opcode is Opcode.MATMUL:
            limit = _LONG_MATMUL
        elif i.opcode is Opcode.VECTOR:
            within = footprint.results(i, self.config) <= limit
            limit *= _LONG_WINDOW if within else 0
            if work <= limit and in_order_matters(i, self.config):
                limit = _LONG_IN_ORDER
        if work <= limit:
            return None

        def refuse() -> None:
            why = f"{work} elements are too many for the machine model"
            raise TooLong(f"{describe(index, i)}: {why}")

        return refuse

    def _action(self, i: Instruction) -> Step:
        match i.opcode:
            case Opcode.LOAD | Opcode.STORE:
                return self._copy(i)
            case Opcode.LOAD_WEIGHTS:
                return lambda: self._load_weights(i)
            case Opcode.LOAD_PARAMS:
                return lambda: self._load_parameters(i)
            case Opcode.MATMUL:
                return self._matmul(i)
            case Opcode.MOVE_WEIGHTS:
                return self._move_weights(i)
            case Opcode.VECTOR if in_order_matters(i, self.config):
                return lambda: self._vector_in_order(i)
            case Opcode.VECTOR:
                return self._vector(i)
            case Opcode.SOFTMAX:
                return self._softmax(i)
            case Opcode.FILL:
                target = footprint.destination(i, self.config)
                return lambda: target.mark(self.unified, i.value)
            case Opcode.NOP | Opcode.FENCE | Opcode.HALT:
                return lambda: None

    def _copy(self, i: Instruction) -> Step:
        external, unified = footprint.external_block(i), footprint.unified_block(i)
        if i.opcode is Opcode.LOAD:
            return lambda: unified.scatter(self._bytes, external.gather(self.memory))
        return lambda: external.scatter(self.memory, unified.gather(self._bytes))

    def _load_weights(self, i: Instruction) -> None:
        c = self.config
        raw = self.memory[i.external : i.external + i.tiles * c.tile_bytes].view(np.int8)
        rows = raw.reshape(i.tiles, c.rows, c.tile_row_bytes)
        self.weights[i.tile : i.tile + i.tiles] = rows[:, :, : c.columns]

    def _load_parameters(self, i: Instruction) -> None:
        if i.kind == Kind.TABLES.value:
            raw = self.memory[i.external : i.external + i.count * TABLE_BYTES].view(np.int8)
            self.tables[i.first : i.first + i.count] = raw.reshape(i.count, TABLE_BYTES)
            return
        raw = self.memory[i.external : i.external + i.count * PARAMETER_BYTES]
        channels = raw.view(_EXTERNAL_CHANNEL)
        target = self.parameters[i.first : i.first + i.count]
        target["bias"] = channels["bias"]
        target["multiplier"] = channels["multiplier"] & 0x7FFFFFFF
        target["left"] = channels["left"] & 31
        target["right"] = channels["right"] & 31

    def _matmul(self, i: Instruction) -> Step:
        taps = footprint.taps(i, self.config)
        tiles = slice(i.tile, i.tile + footprint.steps(i, self.config))
        rows = slice(i.accumulator, i.accumulator + footprint.pixels(i))
        small = i.taps < _FLOAT32_TAPS
        number = np.float32 if small else np.float64
        exact = np.int32 if small else np.int64
        read = taps.reader(self.unified, number)
        tiled = self.weights[tiles].reshape(-1, self.config.columns)[: i.taps]

        count, accumulate, target = i.taps, i.accumulate, self.accumulators[rows]

        def matmul() -> None:
            product = read().reshape(-1, count) @ tiled.astype(number)
            if small and not accumulate:
                target[...] = product
                return
            sums = quantize.wrap32(product.astype(exact))
            if accumulate:
                np.add(target, sums, out=target)
            else:
                target[...] = sums

        return matmul

    def _move_weights(self, i: Instruction) -> Step:
        taps = footprint.taps(i, self.config)
        first = i.tile * self.config.rows
        rows = slice(first, first + footprint.pixels(i))

        read = taps.reader(self.unified, np.int8)
        target = self.weights.reshape(-1, self.config.columns)[rows]
        moved, unused = target[:, : i.taps], target[:, i.taps :]

        def move_weights() -> None:
            moved[...] = read().reshape(moved.shape)
            unused[...] = 0

        return move_weights

    def _softmax(self, i: Instruction) -> Step:
        copy = footprint.copy_of(i)
        rows, results = (
            side(copy, self.config) for side in (footprint.source, footprint.destination)
        )
        exponentials = self.tables[self.config.tables :].reshape(-1).view("<u4")

        def softmax() -> None:
            x = rows.gather(self.unified).reshape(-1, i.channels)
            results.scatter(self.unified, quantize.softmax(x, exponentials & 0x7FFFFFFF))

        return softmax

    def _channels(self, i: Instruction) -> Callable[[], _Channels]:
        """Return a function that reads bias, multiplier, left and right of all channels.

        They are single numbers if all channels have the same.
        """
        lanes, alike = np.arange(i.channels), not i.per_channel
        indices = i.params + (lanes if i.per_channel else lanes % self.config.lanes)
        used = self.parameters[i.params : i.params + min(i.channels, self.config.lanes)]

        def channels() -> _Channels:
            raw = used.tobytes()
            if alike and raw == raw[: CHANNEL.itemsize] * len(used):
                bias, multiplier, left, right = used[0].item()
                return np.int64(bias), np.int64(multiplier), np.int64(left), np.int64(right)
            chosen = self.parameters[indices]
            return (
                chosen["bias"].astype(np.int64),
                chosen["multiplier"].astype(np.int64),
                chosen["left"].astype(np.int64),
                chosen["right"].astype(np.int64),
            )

        return channels

    def _requantizer(self, i: Instruction) -> Callable[[], quantize.Requantizer]:
        """Return a function that returns the requantiser of all channels, by their parameters."""
        count = i.channels if i.per_channel else min(i.channels, self.config.lanes)
        used = self.parameters[i.params : i.params + count]
        channels, rounding, known = self._channels(i), Rounding(i.rounding), self._requantizers
        kind = i.channels, i.per_channel, rounding

        def requantizer() -> quantize.Requantizer:
            key = *kind, used.tobytes()
            if key not in known:
                if len(known) >= _MOST_REQUANTIZERS:
                    known.clear()
                known[key] = quantize.Requantizer(*channels(), rounding)
            return known[key]

        return requantizer

    def _result(self, i: Instruction) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function from requantised numbers to int8 for the unified buffer."""
        limits = i.zero_point, i.low, i.high
        table = self.tables[i.table] if i.use_table else None

        def result(h: np.ndarray) -> np.ndarray:
            y = quantize.finish(h, *limits)
            return y if table is None else table[y.view(np.uint8)]

        return result

    def _vector(self, i: Instruction) -> Step:
        memory = self._sums if i.source == Space.ACCUMULATORS.value else self.unified
        offsets = footprint.window(i)
        # Maxima and single elements fit 32 bits; sums wrap.
        kind = np.int64 if i.window == Window.SUM.value and len(offsets) > 1 else np.int32
        elements = [footprint.source(i, self.config, o).reader(memory, kind) for o in offsets]
        target = footprint.destination(i, self.config)
        inside = i.destination == Space.UNIFIED.value
        write = target.writer(self.unified if inside else self._sums)
        finish, mode = self._result(i) if inside else None, Mode(i.mode)
        combine = np.maximum if i.window == Window.MAX.value else np.add
        requantizer = self._requantizer(i)

        def vector() -> None:
            x = elements[0]()
            for element in elements[1:]:
                combine(x, element(), out=x)
            h = requantizer()(quantize.wrap32(x))
            if finish:
                write(finish(h))
            elif mode is Mode.OVERWRITE:
                write(h)
            else:
                write(quantize.combined(mode, target.gather(self._sums), h))

        return vector

    def _vector_in_order(self, i: Instruction) -> None:
        """Run a VECTOR whose groups read results of its earlier groups."""
        memory = self._sums if i.source == Space.ACCUMULATORS.value else self.unified
        read = footprint.source(i, self.config).addresses().reshape(-1, i.channels)
        write = footprint.destination(i, self.config).addresses().reshape(-1, i.channels)
        scale = self.config.columns if i.source == Space.ACCUMULATORS.value else 1
        offsets = np.array(footprint.window(i), np.int64)[:, None] * scale
        parameters = [np.broadcast_to(parameter, i.channels) for parameter in self._channels(i)()]
        combine = np.max if i.window == Window.MAX.value else np.sum
        finish = self._result(i)
        for pixel in range(len(read)):
            for first in range(0, i.channels, self.config.lanes):
                group = slice(first, min(first + self.config.lanes, i.channels))
                x = combine(memory[offsets + read[pixel, group]].astype(np.int64), axis=0)
                bias, multiplier, left, right = (values[group] for values in parameters)
                h = quantize.requantize(
                    quantize.wrap32(x), bias, multiplier, left, right, Rounding(i.rounding)
                )
                target = write[pixel, group]
                if i.destination == Space.UNIFIED.value:
                    self.unified[target] = finish(h)
                else:
                    old = self._sums[target]
                    self._sums[target] = quantize.combined(Mode(i.mode), old, h)
