"""Random legal instructions."""

import functools
import random
from collections.abc import Callable
from typing import Any

from celosia.hw.arch import isa
from celosia.hw.arch.config import PARAMETER_BYTES, SOFTMAX_ROWS, Config
from celosia.hw.arch.isa import Instruction, Kind, Mode, Opcode, Rounding, Space, Window
from celosia.sim.check import footprint
from celosia.sim.check.vector import feeds_itself

_Draw = Callable[..., Instruction]


def _legal(draw: _Draw) -> _Draw:
    """Return a method that draws until an instruction is in range."""

    @functools.wraps(draw)
    def legal(self: "Generator", *arguments: Any) -> Instruction:
        for _ in range(10_000):
            instruction = draw(self, *arguments)
            try:
                isa.check(instruction, self.config)
                touches = footprint.touches(instruction, self.config)
            except (isa.Illegal, footprint.OutOfRange):
                continue
            # None that races with itself.
            if not feeds_itself(instruction, self.config) and all(map(self.reaches, touches)):
                return instruction
        raise RuntimeError("no legal instruction in 10,000 draws")

    return legal


class Generator:
    """Generator of instructions that a core can run.

    ``config``: the core; ``rng``: source of randomness; ``source``, ``target``: first byte and size
    of the regions of external memory for loads and for stores; ``parameters``: the same for
    LOAD_PARAMS; unless given, ``source``.
    """

    def __init__(
        self,
        config: Config,
        rng: random.Random,
        *,
        source: tuple[int, int] = (0, 1 << 14),
        target: tuple[int, int] = (1 << 14, 1 << 14),
        parameters: tuple[int, int] | None = None,
    ) -> None:
        self.config = config
        self.rng = rng
        self.source = source
        self.target = target
        self.parameters = parameters or source

    def reaches(self, touch: footprint.Touch) -> bool:
        """Return True if a touch is of the core, or of a region of external memory for it."""
        if touch.memory is not footprint.Memory.EXTERNAL:
            return True
        regions = (self.target,) if touch.write else (self.source, self.parameters)
        return any(
            first <= touch.pattern.base and touch.pattern.last < first + size
            for first, size in regions
        )

    def _small(self, limit: int) -> int:
        """Return 0 to ``limit``, mostly small."""
        return self.rng.randint(0, self.rng.choice([1, limit // 4 + 1, limit]))

    def _counts(self, limit: int) -> dict[str, int]:
        """Return counts of the three loops, of at most ``limit`` pixels."""
        counts = [1, 1, 1]
        for axis in self.rng.sample(range(3), 3):
            free = limit // (counts[0] * counts[1] * counts[2])
            counts[axis] = self.rng.randint(1, max(1, min(free, 6)))
        return dict(zip(("x_count", "y_count", "z_count"), counts, strict=True))

    def _segments(self, prefix: str, elements: int) -> dict[str, int]:
        if self.rng.random() < 0.4:
            return {}
        length = self.rng.choice([1, 2, self.config.rows, self.rng.randint(1, elements + 2)])
        return {f"{prefix}run": length, f"{prefix}skip": self.rng.randint(0, 2)}

    def _strides(self, prefix: str, limit: int, axes: str = "xyz") -> dict[str, int]:
        return {f"{prefix}{axis}_stride": self._small(limit) for axis in axes}

    @_legal
    def matmul(self) -> Instruction:
        """Return a MATMUL."""
        config, rng = self.config, self.rng
        taps = rng.randint(1, rng.choice([config.rows, 2 * config.rows, 4 * config.rows]))
        return Instruction(
            Opcode.MATMUL,
            unified=rng.randrange(config.unified_bytes),
            **self._counts(config.accumulator_depth),
            **self._strides("", 2 * config.rows),
            taps=taps,
            **self._segments("", taps),
            tile=rng.randrange(config.weight_tiles),
            accumulator=rng.randrange(config.accumulator_rows),
            accumulate=rng.randrange(2),
        )

    @_legal
    def move_weights(self) -> Instruction:
        """Return a MOVE_WEIGHTS."""
        config, rng = self.config, self.rng
        taps = rng.choice([config.columns, rng.randint(1, config.columns)])
        return Instruction(
            Opcode.MOVE_WEIGHTS,
            unified=rng.randrange(config.unified_bytes),
            **self._counts(rng.choice([1, 3]) * config.rows),
            **self._strides("", 2 * config.rows),
            taps=taps,
            **self._segments("", taps),
            tile=rng.randrange(config.weight_tiles),
        )

    def _side(self, side: str, space: Space, channels: int) -> dict[str, int]:
        config = self.config
        if space is Space.ACCUMULATORS:
            base = self.rng.randrange(config.accumulator_rows)
            return {f"{side}_base": base, **self._strides(f"{side}_", 3)}
        return {
            f"{side}_base": self.rng.randrange(config.unified_bytes),
            **self._strides(f"{side}_", 3 * config.rows),
            **self._segments(f"{side}_", channels),
        }

    def _each_once(self, counts: dict[str, int]) -> dict[str, int]:
        """Return strides of a destination that names no row twice."""
        strides, step = {}, 1
        for axis in self.rng.sample("xyz", 3):
            strides[f"destination_{axis}_stride"] = step
            step *= counts[f"{axis}_count"]
        return strides

    @_legal
    def vector(self) -> Instruction:
        """Return a VECTOR that does not read its own results."""
        config, rng = self.config, self.rng
        limit = isa.limits(config)[Opcode.VECTOR]["mode"].high
        modes = [mode for mode in Mode if mode.value <= limit]
        source, destination = rng.choice(list(Space)), rng.choice(list(Space))
        inside = Space.ACCUMULATORS in (source, destination)
        channels = rng.randint(1, config.columns if inside else 2 * config.columns)
        both = source is destination is Space.ACCUMULATORS
        low = rng.choice([-128, rng.randint(-128, 0)])
        drawn = Instruction(
            Opcode.VECTOR,
            source=source,
            destination=destination,
            **self._counts(24),
            channels=channels,
            **self._side("source", source, channels),
            window=rng.choice(list(Window)),
            window_x_count=rng.choice([1, 1, 2, 3]),
            window_y_count=rng.choice([1, 1, 2]),
            **self._strides("window_", 4, "xy"),
            **self._side("destination", destination, channels),
            mode=Mode.OVERWRITE if both else rng.choice(modes),
            params=rng.randrange(0, config.parameter_channels, config.lanes),
            per_channel=rng.randrange(2),
            rounding=rng.choice(list(Rounding)),
            zero_point=rng.randint(-128, 127),
            low=low,
            high=rng.choice([127, rng.randint(low, 127)]),
            use_table=rng.randrange(2),
            table=rng.randrange(config.tables),
        )
        products = inside and Mode(drawn.mode) in isa.PRODUCT_MODES
        return drawn.but(**self._each_once(drawn.fields)) if products else drawn

    @_legal
    def fill(self) -> Instruction:
        """Return a FILL."""
        rng = self.rng
        channels = rng.randint(1, 3 * self.config.columns)
        return Instruction(
            Opcode.FILL,
            **self._counts(12),
            channels=channels,
            **self._side("destination", Space.UNIFIED, channels),
            value=rng.randint(-128, 127),
        )

    @_legal
    def softmax(self) -> Instruction:
        """Return a SOFTMAX that does not read its own results."""
        config, rng = self.config, self.rng
        return Instruction(
            Opcode.SOFTMAX,
            x_count=rng.choice([1, rng.randint(1, 8), rng.randint(1, SOFTMAX_ROWS)]),
            channels=rng.randint(1, rng.choice([config.lanes + 1, 3 * config.columns])),
            source_base=rng.randrange(config.unified_bytes),
            source_x_stride=self._small(3 * config.rows),
            destination_base=rng.randrange(config.unified_bytes),
            destination_x_stride=self._small(3 * config.rows),
        )

    @_legal
    def _block(self, opcode: Opcode, region: tuple[int, int]) -> Instruction:
        rng, size = self.rng, self.config.unified_bytes
        length = rng.randint(1, rng.choice([3, 3 * self.config.rows, size]))
        return Instruction(
            opcode,
            external=region[0] + rng.randrange(region[1]),
            external_pitch=rng.choice([length, rng.randint(0, 600)]),
            unified=rng.randrange(size),
            unified_pitch=rng.choice([min(length, size - 1), self._small(size - 1)]),
            rows=rng.randint(1, rng.choice([1, 4, 8])),
            length=length,
        )

    def load(self) -> Instruction:
        """Return a LOAD."""
        return self._block(Opcode.LOAD, self.source)

    def store(self) -> Instruction:
        """Return a STORE whose rows do not overlap in external memory."""
        return self._block(Opcode.STORE, self.target)

    @_legal
    def load_weights(self) -> Instruction:
        """Return a LOAD_WEIGHTS."""
        config, rng = self.config, self.rng
        first, size = self.source
        return Instruction(
            Opcode.LOAD_WEIGHTS,
            external=first + rng.randrange(0, size, config.bus_bytes),
            tile=rng.randrange(config.weight_tiles),
            tiles=rng.randint(1, 3),
        )

    @_legal
    def load_params(self) -> Instruction:
        """Return a LOAD_PARAMS."""
        config, rng = self.config, self.rng
        first, size = self.parameters
        step = max(PARAMETER_BYTES, config.bus_bytes)
        kind = rng.choice(list(Kind))
        limit = config.table_slots if kind is Kind.TABLES else config.parameter_channels
        return Instruction(
            Opcode.LOAD_PARAMS,
            external=first + rng.randrange(0, size, step),
            kind=kind,
            first=rng.randrange(limit),
            count=rng.randint(1, limit),
        )

    def any(self) -> Instruction:
        """Return any instruction of an executing unit."""
        draws = (self.matmul, self.vector, self.vector, self.load, self.store)
        rare = (self.fill, self.load_weights, self.load_params)
        if isa.has(Opcode.MOVE_WEIGHTS, self.config):
            rare += (self.move_weights, self.move_weights)
        if isa.has(Opcode.SOFTMAX, self.config):
            rare += (self.softmax, self.softmax)
        return self.rng.choice((*draws, *draws, *rare))()
