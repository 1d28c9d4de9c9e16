import numpy as np
import pysim
import pytest
from amaranth.hdl import ResetInserter, Signal

from celosia.hw.arch.config import EXPONENTIAL_TABLES, TABLE_BYTES
from celosia.hw.arch.isa import Kind
from celosia.hw.memory.parameter_memory import ParameterMemory, ParameterStore
from celosia.hw.memory.table_memory import TableMemory


def channels(rng, count):
    """Random channels and their bytes in external memory."""
    rows = np.stack(
        [
            rng.integers(-(2**31), 2**31, count),
            rng.integers(0, 2**31, count),
            rng.integers(0, 32, count),
            rng.integers(0, 32, count),
        ],
        axis=-1,
    )
    raw = np.zeros((count, 16), np.uint8)
    raw[:, :4] = rows[:, 0].astype("<i4").view(np.uint8).reshape(-1, 4)
    raw[:, 4:8] = rows[:, 1].astype("<u4").view(np.uint8).reshape(-1, 4)
    raw[:, 8:10] = rows[:, 2:]
    return rows, raw.reshape(-1)


def beats(kind, first_byte, raw, size):
    return [
        {"kind": kind, "offset": first_byte + at, "data": raw[at : at + size].tolist()}
        for at in range(0, len(raw), size)
    ]


async def read_groups(ctx, dut, groups):
    """Return the parameters of ``groups``, one requested in each cycle."""
    lanes = dut.memory.lanes
    got = []
    for cycle in range(len(groups) + dut.memory.LATENCY):
        if cycle < len(groups):
            ctx.set(dut.group, int(groups[cycle]))
        if cycle >= dut.memory.LATENCY:
            values = [ctx.get(dut.channels[i]) for i in range(lanes)]
            got.append([[v.bias, v.multiplier, v.left, v.right] for v in values])
        await ctx.tick()
    return np.array(got).reshape(-1, 4)


@pytest.mark.parametrize(
    "lanes, bus_bytes, count",
    [(1, 4, 5), (1, 16, 6), (2, 8, 12), (4, 16, 16), (4, 32, 24), (8, 128, 32), (4, 4, 4)],
)
@pytest.mark.parametrize("parity", [False, True])
async def test_channels(rng, lanes, bus_bytes, count, parity):
    sizes = {"parameter_channels": count, "tables": 1, "bus_bytes": bus_bytes}
    dut = ParameterStore(lanes=lanes, **sizes, parity=parity)
    wanted, raw = channels(rng, count)
    per_beat = max(1, bus_bytes // 16)
    part = count // 2 // per_beat * per_beat
    # From an odd channel on, so that beats of several channels straddle groups.
    other, other_raw = channels(rng, max(part, per_beat))
    first = 1 if len(other) < count else 0
    order = rng.integers(0, count // lanes, 30)
    ctx = await pysim.simulation(dut)
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 0, raw, bus_bytes))
    await ctx.tick()
    got = await read_groups(ctx, dut, order)
    assert (got == wanted.reshape(-1, lanes, 4)[order].reshape(-1, 4)).all()

    again = beats(Kind.CHANNELS, 16 * first, other_raw, bus_bytes)
    await pysim.put_all(ctx, dut.parameters, again, rng=rng, stall=0.4)
    await ctx.tick()
    wanted[first : first + len(other)] = other
    assert (await read_groups(ctx, dut, range(count // lanes)) == wanted).all()


async def test_channels_past_the_end_are_not_written(rng):
    dut = ParameterStore(lanes=2, parameter_channels=6, tables=1, bus_bytes=32)
    wanted, raw = channels(rng, 6)
    other, other_raw = channels(rng, 4)
    ctx = await pysim.simulation(dut)
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 0, raw, 32))
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 16 * 5, other_raw, 32))
    await ctx.tick()
    wanted[5] = other[0]
    assert (await read_groups(ctx, dut, range(3)) == wanted).all()


@pytest.mark.parametrize("bus_bytes", [4, 8])
async def test_a_channel_changes_with_its_last_beat(rng, bus_bytes):
    dut = ParameterStore(lanes=1, parameter_channels=2, tables=1, bus_bytes=bus_bytes)
    wanted, raw = channels(rng, 2)
    other, other_raw = channels(rng, 1)
    ctx = await pysim.simulation(dut)
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 0, raw, bus_bytes))
    for beat in beats(Kind.CHANNELS, 0, other_raw, bus_bytes):
        assert (await read_groups(ctx, dut, range(2)) == wanted).all()
        await pysim.put(ctx, dut.parameters, beat)
        await ctx.tick()
    wanted[0] = other[0]
    assert (await read_groups(ctx, dut, range(2)) == wanted).all()


async def test_a_reset_writes_nothing(rng):
    dut = ParameterStore(lanes=2, parameter_channels=2, tables=1, bus_bytes=16)
    wanted, raw = channels(rng, 2)
    table = rng.integers(-128, 128, 16, np.int8)
    clear = Signal()
    ctx = await pysim.simulation(ResetInserter(clear)(dut))
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 0, raw, 16))
    await pysim.put_all(ctx, dut.parameters, beats(Kind.TABLES, 0, table.view(np.uint8), 16))
    await ctx.tick()
    for kind, held in ((Kind.CHANNELS, raw), (Kind.TABLES, table.view(np.uint8))):
        # Stands there and is not valid.
        (beat,) = beats(kind, 0, ~held[:16], 16)
        ctx.set(dut.parameters.payload, beat)
        await pysim.pulse(ctx, clear)
        await ctx.tick()
    assert (await read_groups(ctx, dut, [0]) == wanted).all()
    for i in range(2):
        ctx.set(dut.entries[i], 0)
    await ctx.tick().repeat(dut.tables.LATENCY)
    assert [ctx.get(dut.values[i]) for i in range(2)] == [table[0]] * 2


@pytest.mark.parametrize("lanes", [1, 4])
async def test_given_parameters_replace_those_of_one_cycle(rng, lanes):
    dut = ParameterStore(lanes=lanes, parameter_channels=16, tables=1, bus_bytes=16, softmax=True)
    held, raw = channels(rng, 16)
    held = held.reshape(-1, lanes, 4)
    ctx = await pysim.simulation(dut)
    await pysim.put_all(ctx, dut.parameters, beats(Kind.CHANNELS, 0, raw, 16))
    await ctx.tick()
    latency = dut.memory.LATENCY
    groups = [0] * latency
    given = None
    for cycle in range(100):
        if cycle >= latency:
            # ``override`` is that of the cycle before.
            wanted = held[groups[0]].tolist()
            if given is not None:
                wanted = [[0, given["multiplier"], 0, given["right"]]] * lanes
            got = [ctx.get(dut.channels[i]) for i in range(lanes)]
            assert [[v.bias, v.multiplier, v.left, v.right] for v in got] == wanted
        groups = [*groups[1:], int(rng.integers(16 // lanes))]
        ctx.set(dut.group, groups[-1])
        fields = {
            "valid": int(rng.random() < 0.4),
            "multiplier": int(rng.integers(1 << 31)),
            "right": int(rng.integers(32)),
        }
        ctx.set(dut.override, fields)
        given = fields if fields["valid"] else None
        await ctx.tick()


async def test_bytes_of_tables_are_shown_while_they_are_written(rng):
    """Also those past the last table, up to the exponentials' last."""
    dut = ParameterStore(lanes=2, parameter_channels=8, tables=1, bus_bytes=4, softmax=True)
    end = (1 + EXPONENTIAL_TABLES) * TABLE_BYTES
    offsets = [0, 4, 252, 256, 512, end - 4]
    content = rng.integers(0, 256, (len(offsets), 4)).tolist()
    shown = []

    async def watch(ctx):
        while True:
            (written,) = (await ctx.tick().sample(dut.written))[2:]
            if written.valid:
                shown.append((written.offset, written.byte))

    ctx = await pysim.simulation(dut, background=[watch])
    for offset, values in zip(offsets, content, strict=True):
        await pysim.rest(ctx, rng, 0.5)
        other = {"kind": Kind.CHANNELS, "offset": 16, "data": values}
        await pysim.put(ctx, dut.parameters, other)
        beat = {"kind": Kind.TABLES, "offset": offset, "data": values}
        await pysim.put(ctx, dut.parameters, beat)
    await ctx.tick().repeat(2)
    assert shown == [
        (offset + n, value)
        for offset, values in zip(offsets, content, strict=True)
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("lanes, tables, bus_bytes", [(1, 1, 4), (3, 2, 16), (2, 3, 32)])
async def test_tables(rng, lanes, tables, bus_bytes):
    store = {"lanes": 2 if lanes == 3 else lanes, "parameter_channels": 8}
    dut = ParameterStore(**store, tables=tables, bus_bytes=bus_bytes)
    lanes = store["lanes"]
    content = rng.integers(-128, 128, (tables, 256), np.int8)
    raw = content.reshape(-1).view(np.uint8)
    picked, rows = rng.integers(0, 256, (300, lanes)), rng.integers(0, tables, 300)
    ctx = await pysim.simulation(dut)
    for beat in beats(Kind.TABLES, 0, raw, bus_bytes):
        await pysim.rest(ctx, rng, 0.1)
        pysim.drive(ctx, dut.parameters, payload=beat, valid=1)
        cycles = 1
        while not ctx.get(dut.parameters.ready):
            await ctx.tick()
            cycles += 1
        assert cycles == bus_bytes
        await ctx.tick()
        ctx.set(dut.parameters.valid, 0)
    await ctx.tick()
    latency = dut.tables.LATENCY
    for cycle in range(300 + latency):
        if cycle >= latency:
            got = [ctx.get(dut.values[i]) for i in range(lanes)]
            assert got == content[rows[cycle - latency]][picked[cycle - latency]].tolist()
        if cycle < 300:
            ctx.set(dut.table, int(rows[cycle]))
            for i in range(lanes):
                ctx.set(dut.entries[i], int(picked[cycle, i]))
        await ctx.tick()


async def test_bytes_past_the_last_table_are_not_written():
    dut = TableMemory(lanes=1, tables=1, bus_bytes=4, offset_bits=9)
    ctx = await pysim.simulation(dut)
    for offset, values in ((0, [1, 2, 3, 4]), (256, [5, 6, 7, 8])):
        pysim.drive(ctx, dut, offset=offset, data=values, enable=1)
        await ctx.tick().repeat(4)
    ctx.set(dut.enable, 0)
    for entry in range(4):
        ctx.set(dut.entries[0], entry)
        await ctx.tick().repeat(dut.LATENCY)
        assert ctx.get(dut.values[0]) == 1 + entry


async def test_a_beat_of_a_table_is_taken_with_its_last_byte_and_not_without():
    dut = TableMemory(lanes=1, tables=1, bus_bytes=4, offset_bits=9)
    taken = []
    ctx = await pysim.simulation(dut)
    for enabled in (1, 1, 1, 0, 0, 1, 1):
        ctx.set(dut.enable, enabled)
        taken.append(enabled & ctx.get(dut.last))
        await ctx.tick()
    assert taken == [0, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "component, sizes, message",
    [
        (ParameterMemory, {"lanes": 3}, "lanes: wanted a power of two, got 3"),
        (ParameterMemory, {"channels": 7}, "channels: wanted a multiple of lanes = 2, got 7"),
        (
            ParameterMemory,
            {"bus_bytes": 64},
            "bus_bytes: wanted a power of two from 4 to 32, got 64",
        ),
        (TableMemory, {"lanes": 0}, "lanes: wanted at least 1, got 0"),
        (TableMemory, {"tables": 0}, "tables: wanted at least 1, got 0"),
        (TableMemory, {"bus_bytes": 3}, "bus_bytes: wanted a power of two, at least 2, got 3"),
    ],
)
def test_refuses(component, sizes, message):
    more = {"channels": 8} if component is ParameterMemory else {"tables": 1}
    with pytest.raises(ValueError, match=message):
        component(**{"lanes": 2, "bus_bytes": 8, "offset_bits": 10, **more, **sizes})
