from collections.abc import Iterable

import numpy as np
import pytest
from all_options import EDGE_WITH_ALL, NANO_WITH_ALL
from estimated import EDGE, HALT, matmul, total

from celosia.hw.arch import commands
from celosia.hw.arch.isa import Instruction, Opcode, Space, assemble
from celosia.hw.arch.presets import preset
from celosia.sim.timing.costs import bursts
from celosia.sim.timing.cycles import COSTS, work
from celosia.sim.timing.traffic import Port
from celosia.sw.runtime.backends import open_device

SUMS = Space.ACCUMULATORS


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        (matmul(x_count=64, taps=784), 49 * 64),
        (matmul(x_count=1, taps=784), 49 * 16),
        (matmul(x_count=5, y_count=4, taps=17), 2 * 20),
        (Instruction(Opcode.LOAD, rows=64, length=784, external_pitch=784), 64 * 49),
        (Instruction(Opcode.LOAD, external=8, rows=2, length=16, external_pitch=16), 4),
        (Instruction(Opcode.STORE, external=15, length=2), 2),
        (Instruction(Opcode.LOAD_WEIGHTS, tiles=3), 48),
        (Instruction(Opcode.LOAD_PARAMS, count=5), 5),
        (Instruction(Opcode.MOVE_WEIGHTS, x_count=5, y_count=4, taps=3), 20),
        (Instruction(Opcode.MOVE_WEIGHTS, x_count=5, taps=17), 10),
        (Instruction(Opcode.FILL, x_count=3, channels=9), 6),
        (Instruction(Opcode.VECTOR, x_count=3, channels=9, window_x_count=4), 3 * 4),
        (Instruction(Opcode.VECTOR, x_count=3, channels=9), 1 + 2 * 2),
        (Instruction(Opcode.VECTOR, x_count=3, channels=9, source_skip=1), 3 * 2),
        (Instruction(Opcode.VECTOR, x_count=3, channels=20), 2 * (2 + 1) + 2 + 1),
        (Instruction(Opcode.VECTOR, x_count=3, channels=20, window_x_count=2), 3 * 2 * 2),
        (Instruction(Opcode.VECTOR, x_count=3, channels=32, window_x_count=1), 5 * 2 + 1),
        (Instruction(Opcode.VECTOR, source=SUMS, x_count=3, channels=9, window_x_count=4), 3 * 4),
        (Instruction(Opcode.VECTOR, source=SUMS, x_count=3, channels=9), 1 + 2 * 2),
        (HALT, 1),
    ],
)
def test_work_of_one_instruction(instruction: Instruction, cycles: int):
    assert work(instruction, EDGE) == cycles


def test_a_beat_may_be_wider_than_a_block_of_the_program():
    """A beat of 64 bytes has all words of a block; wider ones have no more."""
    load = Instruction(Opcode.LOAD, length=256, external_pitch=256)
    loads = [load.but(unified=256 * n) for n in range(9)]
    configs = [preset(f"tpu_v1,bus_bytes={n},burst_beats=16") for n in (16, 64, 256)]
    cycles = [total(*loads, config=config) for config in configs]
    assert cycles[0] > cycles[1] > cycles[2] > COSTS.memory


def test_bursts_end_where_addresses_are_multiples_of_full_ones():
    move = Instruction(Opcode.LOAD, external=250, rows=2, length=300, external_pitch=262)
    assert bursts(move, EDGE) == [[1, 16, 3], [16, 3]]
    assert bursts(Instruction(Opcode.LOAD_WEIGHTS, tiles=2), EDGE) == [[16], [16]]
    assert bursts(Instruction(Opcode.LOAD_PARAMS, count=20), EDGE) == [[16, 4]]
    assert bursts(Instruction(Opcode.LOAD_PARAMS, count=1, kind=1), EDGE) == [[16]]


def test_a_port_gives_the_cycles_that_others_leave():
    port = Port()
    assert port.end(10, 5) == 15
    port.take(12, 20, 1.0)
    port.take(22, 30, 0.5)
    assert port.end(10, 2) == 12
    assert port.end(10, 3) == 21
    assert port.end(10, 6) == 26
    assert port.end(10, 10) == 32
    assert port.end(40, 3) == 43


CORES = ("nano", "edge", "nano,requantizer=sequential")

#: Blocks of the program and bursts of loads wait for one another.
FETCHED = "".join(
    f"LOAD_WEIGHTS external={4096 + 512 * n} tile={4 * n} tiles=4\n"
    f"MATMUL unified={32 * n} taps=16 x_count=2 tile=128 accumulator={n}\n"
    for n in range(10)
)

#: Instructions and parts of some that several programs have.
_FILL, _PASSES = "FILL x_count=2 channels=4\n", "MATMUL taps=160 x_count=64\n"
_VECTOR, _APART = "VECTOR x_count=40 channels=", "destination_base=8192\n"
_DRAIN = "VECTOR source=ACCUMULATORS x_count=40 channels=4"

#: Programs, and their cycles on each of ``CORES``, counted by the RTL at latency 32.
COUNTED = {
    "": (47, 47, 47),
    "NOP\nFENCE\nNOP\n": (68, 68, 68),
    FETCHED: (301, 734, 301),
    # Ten instructions may be in a unit.
    "LOAD length=4\n" * 12: (150, 150, 150),
    "LOAD length=28 rows=28 external_pitch=28 unified_pitch=40\n": (294, 166, 294),
    "LOAD_WEIGHTS tiles=60\n": (368, 1053, 368),
    # A byte a cycle.
    "LOAD_PARAMS kind=TABLES\n" * 2: (606, 606, 606),
    "LOAD_PARAMS kind=TABLES\n" + "LOAD length=64\n" * 3: (397, 361, 397),
    "LOAD_PARAMS kind=TABLES\nLOAD rows=6 length=4 external_pitch=64\n" * 2
    + "MATMUL taps=8 x_count=2\n" * 10: (617, 617, 617),
    "STORE length=10 rows=64 external=65536 external_pitch=10 unified_pitch=10\n": (295, 199, 295),
    "MATMUL taps=100 x_count=200\n": (5075, 1501, 5075),
    "MATMUL taps=1000\n": (1071, 1087, 1071),
    "MATMUL taps=4 x_count=30\n" + "MATMUL taps=4 x_count=30 accumulate=1\n" * 2: (171, 197, 171),
    "MATMUL taps=4 x_count=5\n" * 9: (136, 228, 136),
    f"{_DRAIN} window_x_count=2 window_y_count=2\n" * 4: (764, 755, 14_843),
    f"{_VECTOR}3 window_x_count=3\n" * 3: (512, 509, 8438),
    f"{_VECTOR}13 window_x_count=3 {_APART}" * 3: (1947, 513, 36_039),
    f"{_VECTOR}40 source_x_stride=40 {_APART}" * 3: (4947, 750, 110_553),
    "VECTOR x_count=40 channels=4 source_skip=1 source_run=3\n" * 3: (627, 270, 11_193),
    # The array and the store unit beside reads of the vector unit.
    f"{_PASSES}VECTOR x_count=100 channels=32 {_APART}": (3435, 941, 73_691),
    f"{_PASSES}VECTOR x_count=60 channels=48 window_x_count=4 {_APART}": (5515, 1461, 66_335),
    "STORE rows=30 length=64 external=65536 external_pitch=64\n"
    "VECTOR x_count=100 channels=32 destination_base=8192\n": (3765, 605, 74_167),
    # One has its semaphores and waits for the vector unit, beside those in its queue.
    "FILL x_count=1000 channels=4\n" + _FILL * 5 + "MATMUL taps=784\n": (4157, 1145, 93_026),
    _FILL * 9: (215, 188, 1777),
    "VECTOR destination=ACCUMULATORS x_count=20 channels=4\n"
    "VECTOR destination=ACCUMULATORS mode=ADD x_count=20 channels=4\n"
    "VECTOR source=ACCUMULATORS x_count=20 channels=4\n" * 3: (959, 422, 16_808),
    "LOAD length=64 post=0\nMATMUL taps=64 x_count=20 wait=0 post=1\n"
    "VECTOR source=ACCUMULATORS x_count=20 channels=4 wait=1 post=2\n"
    "STORE length=40 external=65536 wait=2\n": (626, 336, 2388),
    # The array waits for each of many short rows.
    "STORE rows=400 length=32 external=65536 external_pitch=32 unified_pitch=33\n"
    + "MATMUL taps=16 x_count=60\n" * 6: (4716, 1260, 4716),
    "STORE rows=700 length=8 external=65536 external_pitch=8 unified_pitch=9\n"
    + "MATMUL taps=200 x_count=60\n" * 2: (7476, 2360, 7476),
    # Requests of loads and instructions wait for one another.
    "LOAD rows=6 length=4 external_pitch=64\nMATMUL taps=8 x_count=2\n" * 10: (338, 245, 338),
    "MATMUL taps=8 x_count=2 post=1\n"
    "VECTOR source=ACCUMULATORS x_count=2 channels=4 destination_base=8192 wait=1 post=2\n"
    "NOP wait=2\n" * 6: (529, 643, 1597),
    "LOAD length=2000\nFILL x_count=300 channels=4\nSTORE length=900 external=65536\n"
    "MATMUL taps=16 x_count=200\nNOP\n": (1782, 510, 27_683),
}


#: Cores with MOVE_WEIGHTS, programs and their cycles, likewise.
MOVING = (NANO_WITH_ALL, EDGE_WITH_ALL)
MOVED = {
    "MOVE_WEIGHTS x_count=4 x_stride=4 taps=4\n": (80, 106),
    "MOVE_WEIGHTS x_count=64 x_stride=4 taps=4\n": (140, 166),
    "MOVE_WEIGHTS x_count=64 x_stride=4 taps=4\nMATMUL taps=16 x_count=4\n": (160, 171),
    "MOVE_WEIGHTS x_count=61 x_stride=1 taps=4 run=1 skip=2\nMATMUL taps=61 x_count=7\n": (
        258,
        221,
    ),
    "MOVE_WEIGHTS x_count=64 x_stride=4 taps=4\n"
    "MATMUL taps=16 x_count=40\n"
    "MOVE_WEIGHTS x_count=64 x_stride=4 taps=4\n"
    "MATMUL taps=16 x_count=40\n": (532, 312),
    "MATMUL taps=4 x_count=4\n"
    "MOVE_WEIGHTS x_count=4 x_stride=4 taps=4\n"
    "MATMUL taps=4 x_count=4 accumulate=1\n"
    "MOVE_WEIGHTS x_count=4 x_stride=4 taps=4\n"
    "MATMUL taps=4 x_count=4 accumulate=1\n": (109, 154),
    "MOVE_WEIGHTS x_count=1 taps=4\n"
    "MOVE_WEIGHTS x_count=3 tile=2 taps=4\n"
    "MATMUL taps=4\n"
    "MATMUL taps=4 tile=2 x_count=2 accumulate=1\n"
    "MOVE_WEIGHTS\n": (109, 156),
    "MATMUL taps=64 x_count=20\n"
    "MOVE_WEIGHTS x_count=4 x_stride=4 taps=4\n"
    "MATMUL taps=64 x_count=20 accumulate=1\n"
    "MOVE_WEIGHTS x_count=4 x_stride=4 taps=4 post=0\n"
    "STORE length=40 external=65536 wait=0\n": (792, 333),
    "MOVE_WEIGHTS x_count=200 x_stride=4 taps=4\n"
    "MATMUL taps=16 x_count=40\n"
    "VECTOR x_count=100 channels=8 destination_base=8192\n": (897, 443),
    "LOAD length=64 post=0\n"
    "MOVE_WEIGHTS x_count=16 x_stride=4 taps=4 wait=0\n"
    "MATMUL taps=16 x_count=20 post=1\n"
    "VECTOR source=ACCUMULATORS x_count=20 channels=4 wait=1 post=2\n"
    "STORE length=40 external=65536 wait=2\n": (409, 296),
    # Rows delay the beats of a load.
    "LOAD_WEIGHTS tile=4 tiles=12\nMOVE_WEIGHTS x_count=64 x_stride=4 taps=4\n": (190, 331),
    "LOAD_WEIGHTS tile=4 tiles=4\nMOVE_WEIGHTS x_count=16 x_stride=4 taps=4\n"
    "MATMUL taps=16 x_count=20\nMOVE_WEIGHTS x_count=64 x_stride=1 taps=4\n"
    "LOAD_WEIGHTS tile=8 tiles=12\n": (243, 414),
}


#: Cores with products, programs and their cycles, likewise.
MULTIPLYING = (NANO_WITH_ALL, EDGE_WITH_ALL, "pico,elementwise_products=true")
_MULTIPLY = "destination=ACCUMULATORS destination_x_stride=1 mode=MULTIPLY"
MULTIPLIED = {
    f"VECTOR {_MULTIPLY}\n": (83, 86, 104),
    f"VECTOR x_count=20 channels=4 {_MULTIPLY}\n": (164, 107, 1923),
    "VECTOR x_count=20 channels=4 destination=ACCUMULATORS destination_x_stride=1\n"
    f"VECTOR x_count=20 channels=4 {_MULTIPLY}\n"
    "VECTOR source=ACCUMULATORS source_x_stride=1 x_count=20 channels=4 "
    "destination_x_stride=4\n": (366, 189, 5643),
    f"VECTOR x_count=9 channels=3 {_MULTIPLY} post=0\nSTORE length=40 external=65536 wait=0\n": (
        171,
        149,
        764,
    ),
    f"VECTOR x_count=9 channels=3 {_MULTIPLY}\n"
    "VECTOR x_count=9 channels=3 destination=ACCUMULATORS destination_x_stride=1 mode=ADD\n"
    "FILL x_count=9 channels=4 destination_x_stride=4\n": (198, 138, 2175),
}
MULTIPLIED |= {text.replace("MULTIPLY", "SQUARED_DIFFERENCE"): n for text, n in MULTIPLIED.items()}


def counted_by_rtl(name: str, programs: Iterable[str]) -> dict[str, int]:
    """Return the cycles of programs on the RTL."""
    device = open_device("rtl", preset(name), 1 << 21, latency=COSTS.memory)
    counted = {}
    for text in programs:
        program = [*assemble(text), HALT]
        # After all that the programs read and write.
        code = commands.encode(program)
        device.write(1 << 20, code)
        counted[text] = device.run(1 << 20, len(code) // commands.WORD_BYTES).cycles
    return counted


@pytest.mark.parametrize("name", CORES)
def test_cycles_of_small_programs_are_those_of_the_rtl(name: str, verilator: None):
    wanted = {text: cycles[CORES.index(name)] for text, cycles in COUNTED.items()}
    assert counted_by_rtl(name, COUNTED) == wanted


#: Cores with an option, and cycles of programs that use it.
WITH_OPTIONS = [
    (name, {text: cycles[cores.index(name)] for text, cycles in counted.items()})
    for cores, counted in ((MOVING, MOVED), (MULTIPLYING, MULTIPLIED))
    for name in cores
]


@pytest.mark.parametrize(("name", "wanted"), WITH_OPTIONS)
def test_cycles_of_options_are_those_of_the_rtl(name: str, wanted: dict[str, int], verilator: None):
    assert counted_by_rtl(name, wanted) == wanted


#: Cycles of the programs for which the estimate is one less: the tile of a second MATMUL starts
#: between two MOVE_WEIGHTS.
SHORT = (156,)


@pytest.mark.parametrize(("name", "wanted"), WITH_OPTIONS)
def test_estimate_of_options_is_that_of_the_rtl(name: str, wanted: dict[str, int]):
    estimated = {text: total(*assemble(text), config=preset(name)) for text in wanted}
    assert estimated == {text: n - (n in SHORT) for text, n in wanted.items()}


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("program", COUNTED)
def test_estimate_is_near_the_rtl(program: str, name: str):
    counted = COUNTED[program][CORES.index(name)]
    # The estimate models priorities on the bus by shares.
    assert abs(total(*assemble(program), config=preset(name)) - counted) <= 2


@pytest.mark.parametrize(("rows", "each"), [(1, 16), (4, 4), (16, 1)])
def test_more_weight_rows_help_at_one_pixel(rows: int, each: int):
    config = preset(f"edge,weight_rows={rows}")
    assert work(matmul(taps=784), config) == 49 * each
    assert work(matmul(x_count=2, taps=784), config) == 49 * max(each, 4)
    assert total(matmul(taps=784), config=config) == pytest.approx(48 * each + 98, abs=3)


@pytest.mark.parametrize("field", ["x_count", "y_count", "z_count", "taps"])
def test_more_work_never_takes_less(field: str):
    totals = [total(matmul(**{field: n})) for n in range(1, 200, 7)]
    assert all(np.diff(totals) >= 0)
    assert totals[-1] > totals[0]


def test_slower_memory_takes_as_much_longer():
    load = Instruction(Opcode.LOAD, length=64)
    slow = COSTS._replace(memory=COSTS.memory + 100)
    # Once for the fetch of the program, once for the data.
    assert total(load, costs=slow) - total(load) == 200


def test_narrower_memory_takes_as_much_longer():
    load = Instruction(Opcode.LOAD, length=16_000)
    narrow = COSTS._replace(bandwidth=0.25)
    assert total(load, costs=narrow) - total(load) == pytest.approx(3 * 1000, abs=30)


def test_reads_and_writes_share_the_bandwidth():
    load = Instruction(Opcode.LOAD, length=8000)
    store = Instruction(Opcode.STORE, length=8000, external=1 << 16, unified=8000)
    assert total(load, store) == pytest.approx(total(load) + 500, abs=20)
    wide = COSTS._replace(bandwidth=2.0)
    assert total(load, store, costs=wide) == pytest.approx(total(store, costs=wide), abs=20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": 0}, "latency: wanted at least 1 cycle, got 0"),
        ({"bandwidth": 0.0}, "bandwidth: wanted 1/1024 to 2 beats per cycle, got 0.0"),
        ({"bandwidth": 3.0}, "bandwidth: wanted 1/1024 to 2 beats per cycle, got 3.0"),
        ({"bandwidth": float("nan")}, "got nan"),
    ],
)
def test_impossible_memories_are_refused(change: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        total(costs=COSTS._replace(**change))


def test_instructions_ahead_of_a_slow_memory_run_dry():
    fill = Instruction(Opcode.FILL, x_count=20, channels=8)
    fills = [fill.but(destination_base=n) for n in range(120)]
    slow = COSTS._replace(memory=1000)
    # Five blocks are requested at a time; every instruction has another address, two words.
    # Their data take a few cycles each; the words come in three turns of five blocks and one more.
    assert total(*fills, costs=slow) == pytest.approx(4 * 1000 + 500, rel=0.05)
