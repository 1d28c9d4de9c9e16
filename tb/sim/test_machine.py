from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from celosia.hw.arch import commands
from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Rounding, Space, Window
from celosia.hw.arch.presets import PRESETS, preset
from celosia.sim.model.machine import Machine

HALT = Instruction(Opcode.HALT)
SMALL = preset(
    "micro,rows=4,columns=6,unified_bytes=1024,weight_tiles=16,accumulator_depth=32,bus_bytes=4,"
    "parameter_channels=16,tables=3,queue_depth=3,dsp_columns=0"
)
SMALL = replace(SMALL, name="custom")
MULTIPLIES = replace(SMALL, name="multiplies", elementwise_products=True)
CONFIGS = [SMALL, PRESETS["nano"], PRESETS["edge"], MULTIPLIES]


def filled(config: Config, rng: np.random.Generator, memory_bytes: int = 1 << 14) -> Machine:
    """Machine with random contents of all memories."""
    machine = Machine(config, memory_bytes=memory_bytes)
    machine.memory[:] = rng.integers(0, 256, memory_bytes)
    for array in (machine.unified, machine.weights, machine.tables):
        array[...] = rng.integers(-128, 128, array.shape)
    machine.accumulators[...] = rng.integers(-(1 << 31), 1 << 31, machine.accumulators.shape)
    p = machine.parameters
    p["bias"] = rng.integers(-(1 << 12), 1 << 12, p.size)
    p["multiplier"] = rng.integers(0, 1 << 31, p.size)
    p["left"] = np.where(rng.random(p.size) < 0.7, 0, rng.integers(0, 32, p.size))
    p["right"] = rng.integers(0, 24, p.size)
    return machine


def expect(machine: Machine, want: dict[str, np.ndarray]) -> None:
    for name, array in machine.state.items():
        np.testing.assert_array_equal(array, want[name], err_msg=name)


def test_watch_is_called_before_each_instruction() -> None:
    machine = Machine(SMALL)
    machine.unified[:] = 7
    fills = [Instruction(Opcode.FILL, destination_base=n, value=n) for n in (1, 2)]
    seen = []
    machine.watch = lambda index, i: seen.append((index, i.opcode, machine.unified[:4].tolist()))
    machine.run([*fills, HALT])
    fill, halt = Opcode.FILL, Opcode.HALT
    assert seen == [(0, fill, [7, 7, 7, 7]), (1, fill, [7, 1, 7, 7]), (2, halt, [7, 1, 2, 7])]
    machine.watch = None
    machine.run([*fills, HALT])
    assert len(seen) == 3


def draw(rng: np.random.Generator, **limits: int) -> dict[str, int]:
    return {name: int(rng.integers(1, high, endpoint=True)) for name, high in limits.items()}


def pixels(i: Instruction, side: str):
    """Origins of the pixels, x fastest."""
    f = i.fields
    for place in product(*map(range, (i.z_count, i.y_count, i.x_count))):
        yield sum(n * f[f"{side}{axis}_stride"] for n, axis in zip(place, "zyx", strict=True))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_blocks(opcode: Opcode, config: Config, rng: np.random.Generator):
    machine = filled(config, rng)
    for _ in range(20):
        sizes = draw(rng, rows=7, length=40, external_pitch=60, unified_pitch=60)
        bases = {"external": int(rng.integers(0, 5000)), "unified": int(rng.integers(0, 500))}
        i = Instruction(opcode, **sizes, **bases)
        want = machine.state
        for row in range(i.rows):
            for byte in range(i.length):
                outside = i.external + row * i.external_pitch + byte
                inside = i.unified + row * i.unified_pitch + byte
                if opcode is Opcode.LOAD:
                    want["unified"][inside] = machine.memory[outside].astype(np.int8)
                else:
                    want["memory"][outside] = machine.unified[inside].astype(np.uint8)
        machine.run([i, HALT])
        expect(machine, want)


@pytest.mark.parametrize("config", [*CONFIGS, PRESETS["tpu_v1"]], ids=lambda c: c.name)
def test_load_weights_drops_the_padding(config: Config, rng: np.random.Generator):
    machine = Machine(config, memory_bytes=1 << 18)
    machine.memory[:] = rng.integers(0, 256, 1 << 18)
    base, tile, tiles = 3 * config.bus_bytes, 1, 2
    machine.run([Instruction(Opcode.LOAD_WEIGHTS, external=base, tile=tile, tiles=tiles), HALT])
    for t in range(tiles):
        for r in range(config.rows):
            start = base + (t * config.rows + r) * config.tile_row_bytes
            row = machine.memory[start : start + config.columns].view(np.int8)
            np.testing.assert_array_equal(machine.weights[tile + t, r], row)
    assert not machine.weights[0].any()
    assert not machine.weights[3:].any()


def test_load_params(rng: np.random.Generator):
    machine = filled(SMALL, rng)
    want = machine.state
    channels = Instruction(Opcode.LOAD_PARAMS, external=160, first=3, count=5)
    tables = Instruction(Opcode.LOAD_PARAMS, kind=Kind.TABLES, external=1024, first=1, count=2)
    machine.run([channels, tables, HALT])
    for c in range(5):
        raw = machine.memory[160 + 16 * c : 176 + 16 * c].tobytes()
        want["parameters"][3 + c] = (
            int.from_bytes(raw[:4], "little", signed=True),
            int.from_bytes(raw[4:8], "little") % (1 << 31),
            raw[8] % 32,
            raw[9] % 32,
        )
    want["tables"][1:3] = machine.memory[1024:1536].view(np.int8).reshape(2, 256)
    expect(machine, want)


def slow_matmul(machine: Machine, i: Instruction) -> np.ndarray:
    """Sums by the text of docs/design/instructions.md, one multiplication at a time."""
    config = machine.config
    sums = machine.accumulators.astype(object)
    for p, origin in enumerate(pixels(i, "")):
        for s in range(-(-i.taps // config.rows)):
            row = [0] * config.columns
            for lane in range(config.rows):
                k = s * config.rows + lane
                if k < i.taps:
                    address = i.unified + origin + k + k // i.run * i.skip * config.rows
                    x = int(machine.unified[address])
                    weights = machine.weights[i.tile + s, lane].tolist()
                    row = [r + x * w for r, w in zip(row, weights, strict=True)]
            keep = s > 0 or i.accumulate
            old = sums[i.accumulator + p].tolist() if keep else [0] * config.columns
            sums[i.accumulator + p] = [wrap(o + r) for o, r in zip(old, row, strict=True)]
    return sums.astype(np.int32)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_matmul(config: Config, rng: np.random.Generator):
    machine = filled(config, rng)
    for _ in range(15):
        sizes = draw(rng, x_count=4, y_count=3, z_count=2, taps=3 * config.rows, run=12)
        strides = {f"{axis}_stride": int(rng.integers(0, 40)) for axis in "xyz"}
        values = {"unified": 300, "skip": 2, "tile": 3, "accumulator": 5, "accumulate": 1}
        chosen = {name: int(rng.integers(0, high + 1)) for name, high in values.items()}
        i = Instruction(Opcode.MATMUL, **sizes, **strides, **chosen)
        want = machine.state | {"accumulators": slow_matmul(machine, i)}
        machine.run([i, HALT])
        expect(machine, want)


def slow_move_weights(machine: Machine, i: Instruction) -> np.ndarray:
    """Tiles by the text of docs/design/instructions.md, one byte at a time."""
    config, weights = machine.config, machine.weights.copy()
    for n, origin in enumerate(pixels(i, "")):
        row = weights[i.tile + n // config.rows, n % config.rows]
        row[:] = 0
        for k in range(i.taps):
            row[k] = machine.unified[i.unified + origin + k + k // i.run * i.skip * config.rows]
    return weights


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_move_weights(config: Config, rng: np.random.Generator):
    machine = filled(replace(config, activation_weights=True), rng)
    for _ in range(15):
        sizes = draw(rng, x_count=4, y_count=3, z_count=2, taps=config.columns, run=12)
        strides = {f"{axis}_stride": int(rng.integers(0, 40)) for axis in "xyz"}
        values = {"unified": 300, "skip": 2, "tile": 3}
        chosen = {name: int(rng.integers(0, high + 1)) for name, high in values.items()}
        i = Instruction(Opcode.MOVE_WEIGHTS, **sizes, **strides, **chosen)
        want = machine.state | {"weights": slow_move_weights(machine, i)}
        machine.run([i, HALT])
        expect(machine, want)


def test_a_matrix_straight_and_transposed(rng: np.random.Generator):
    config = preset("edge,activation_weights=true")
    machine = Machine(config)
    rows, columns = 40, 33
    matrix = rng.integers(-128, 128, (rows, columns), np.int8)
    machine.unified[: matrix.size] = matrix.ravel()
    straight = Instruction(Opcode.MOVE_WEIGHTS, x_count=rows, x_stride=columns, taps=16, unified=16)
    # A pitch of 2 R + 1 puts the bytes of a column into R different banks.
    more = {"run": 1, "skip": 2, "taps": 16, "tile": 8}
    turned = Instruction(Opcode.MOVE_WEIGHTS, x_count=columns, x_stride=1, **more)
    machine.run([straight, turned, HALT])
    flat = machine.weights.reshape(-1, config.columns)
    np.testing.assert_array_equal(flat[:rows], matrix[:, 16:32])
    np.testing.assert_array_equal(flat[8 * 16 :][:columns], matrix[:16].T)


def test_matmul_of_the_largest_sums_wraps():
    config = PRESETS["edge"]
    machine = Machine(config)
    machine.unified[:] = -128
    machine.weights[...] = -128
    taps = config.weight_tiles * config.rows
    i = Instruction(Opcode.MATMUL, taps=taps, unified=0, accumulate=1)
    for _ in range(17):
        machine.run([i, HALT])
    exact = 17 * taps * 128 * 128
    assert exact > 1 << 31
    assert (machine.accumulators[0] == exact - (1 << 32)).all()
    assert not machine.accumulators[1:].any()


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def factor(value: int) -> int:
    """Return the 16 lower bits, signed."""
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def slow_requantize(x: int, p: Any, double: bool) -> int:
    x = wrap(x + int(p["bias"])) << int(p["left"])
    x = wrap(x) if double else min(max(x, -(1 << 31)), (1 << 31) - 1)
    right = int(p["right"])
    h = (x * int(p["multiplier"]) + ((1 << 30) if double or not right else 0)) >> 31
    return (h + (1 << right >> 1) - (double and h < 0)) >> right if right else h


def slow_vector(machine: Machine, i: Instruction) -> None:
    """Run a VECTOR one group after the other, by the text of docs/design/instructions.md."""
    config = machine.config
    flat = machine.accumulators.reshape(-1)
    combine = max if i.window == Window.MAX.value else sum

    def address(space: int, base: int, c: int, run: int, skip: int) -> int:
        if space == Space.ACCUMULATORS.value:
            return base * config.columns + c
        return base + c + c // run * skip * config.rows

    origins = zip(pixels(i, "source_"), pixels(i, "destination_"), strict=True)
    for origin, target in origins:
        for first in range(0, i.channels, config.lanes):
            results = []
            for c in range(first, min(first + config.lanes, i.channels)):
                elements = []
                for wy in range(i.window_y_count):
                    for wx in range(i.window_x_count):
                        base = i.source_base + origin
                        base += wy * i.window_y_stride + wx * i.window_x_stride
                        a = address(i.source, base, c, i.source_run, i.source_skip)
                        elements.append(int((flat if i.source else machine.unified)[a]))
                p = machine.parameters[i.params + (c if i.per_channel else c % config.lanes)]
                h = slow_requantize(wrap(combine(elements)), p, i.rounding == Rounding.DOUBLE.value)
                base = i.destination_base + target
                a = address(i.destination, base, c, i.destination_run, i.destination_skip)
                results.append((a, h))
            for a, h in results:
                if i.destination == Space.ACCUMULATORS.value:
                    old = int(flat[a])
                    product, square = factor(old) * factor(h), factor(h - old) ** 2
                    flat[a] = (h, wrap(old + h), max(old, h), product, square)[i.mode]
                else:
                    y = min(max(h + i.zero_point, i.low), i.high)
                    machine.unified[a] = machine.tables[i.table][y & 255] if i.use_table else y


def random_vector(config: Config, rng: np.random.Generator) -> Instruction:
    """A VECTOR whose source and destination may overlap."""
    source, destination = (int(n) for n in rng.integers(0, 2, 2))
    values: dict[str, int] = draw(rng, x_count=3, y_count=2, z_count=2)
    inner = bool(source or destination)
    values["channels"] = int(rng.integers(1, (config.columns if inner else 11) + 1))
    for side, space in (("source", source), ("destination", destination)):
        values[f"{side}_base"] = int(rng.integers(0, 10 if space else 60))
        for axis in "xyz":
            values[f"{side}_{axis}_stride"] = int(rng.integers(0, 4 if space else 30))
        values[f"{side}_run"] = int(rng.integers(1, 9))
        values[f"{side}_skip"] = int(rng.integers(0, 3))
    values |= draw(rng, window_x_count=3, window_y_count=2)
    for axis in "xy":
        values[f"window_{axis}_stride"] = int(rng.integers(0, 4 if source else 20))
    if not (source and destination):
        values["mode"] = int(rng.integers(0, 5 if config.elementwise_products else 3))
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    values |= {"source": source, "destination": destination, "low": low, "high": high}
    values["params"] = int(rng.integers(0, 2)) * config.lanes
    values["per_channel"] = int(rng.integers(0, 2)) if values["channels"] <= 8 else 0
    values["table"] = int(rng.integers(0, config.tables))
    for name in ("window", "rounding", "use_table"):
        values[name] = int(rng.integers(0, 2))
    values["zero_point"] = int(rng.integers(-128, 128))
    return Instruction(Opcode.VECTOR, **values)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_vector(config: Config, rng: np.random.Generator):
    machine, model = filled(config, rng), Machine(config, memory_bytes=1)
    for _ in range(60):
        i = random_vector(config, rng)
        for name in ("unified", "accumulators", "parameters", "tables"):
            getattr(model, name)[...] = getattr(machine, name)
        slow_vector(model, i)
        machine.run([i, HALT])
        np.testing.assert_array_equal(machine.unified, model.unified, err_msg=repr(i))
        np.testing.assert_array_equal(machine.accumulators, model.accumulators, err_msg=repr(i))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_fill(config: Config, rng: np.random.Generator):
    machine = filled(config, rng)
    for _ in range(20):
        sizes = draw(rng, x_count=4, y_count=3, z_count=2, channels=20, destination_run=9)
        strides = {f"destination_{axis}_stride": int(rng.integers(0, 50)) for axis in "xyz"}
        value = int(rng.integers(-128, 128))
        ends = {"destination_base": 7, "destination_skip": 1}
        i = Instruction(Opcode.FILL, **sizes, **strides, **ends, value=value)
        want = machine.state
        for origin in pixels(i, "destination_"):
            for c in range(i.channels):
                want["unified"][7 + origin + c + c // i.destination_run * config.rows] = value
        machine.run([i, HALT])
        expect(machine, want)


def test_fill_of_the_same_byte_again_and_again_is_quick():
    machine = Machine(SMALL)
    counts = dict.fromkeys(("x_count", "y_count", "z_count"), 65535)
    machine.run([Instruction(Opcode.FILL, **counts, destination_base=9, value=-3), HALT])
    assert np.flatnonzero(machine.unified).tolist() == [9]


def test_semaphores_decide_the_order():
    machine = Machine(SMALL)
    machine.memory[:4] = (1, 2, 3, 4)
    program = [
        Instruction(Opcode.STORE, external=8, unified=0, length=4, wait=2),
        Instruction(Opcode.FILL, channels=2, value=9, wait=1, post=2),
        Instruction(Opcode.LOAD, unified=0, length=4, post=1),
        HALT,
    ]
    machine.run(program)
    assert machine.memory[8:12].tolist() == [9, 9, 3, 4]
    machine.memory[8:12] = 0
    machine.run(commands.encode(program))
    assert machine.memory[8:12].tolist() == [9, 9, 3, 4]


def test_fence_and_nop_take_and_post():
    machine = Machine(SMALL)
    program = [
        Instruction(Opcode.FILL, channels=3, value=1, post=1),
        Instruction(Opcode.NOP, wait=1, post=6),
        Instruction(Opcode.STORE, external=4, length=3, wait=2),
        Instruction(Opcode.FENCE, wait=4, post=1),
        Instruction(Opcode.HALT, wait=1),
    ]
    machine.run(program)
    assert machine.memory[4:7].tolist() == [1, 1, 1]


def test_instructions_after_halt_do_not_run():
    machine = Machine(SMALL)
    machine.run([HALT, Instruction(Opcode.FILL, value=1)])
    assert not machine.unified.any()


def test_matmul_of_more_taps_than_single_precision_adds_exactly():
    config = PRESETS["edge"]
    for taps in (1023, 1024, 1025, 1501, 2047, 3001):
        machine = Machine(config, memory_bytes=4096)
        machine.unified[:] = 127
        machine.weights[:] = 127
        machine.run([Instruction(Opcode.MATMUL, taps=taps), HALT])
        assert (machine.accumulators[0] == 127 * 127 * taps).all()
