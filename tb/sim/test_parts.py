"""Models of FPGA primitives against plain arithmetic, in Icarus."""

from typing import Any

import pytest
from icarus import Player

pytestmark = pytest.mark.usefixtures("icarus")


def as_signed(value, width):
    return value - ((value >> (width - 1) & 1) << width)


def random_rows(rng, cell, count):
    return [
        [int.from_bytes(rng.bytes(5), "little") % (1 << width) for width in cell.inputs.values()]
        for _ in range(count)
    ]


@pytest.mark.parametrize("pipeline", [False, True])
def test_mult18x18d(pipeline, rng, tmp_path):
    inputs = {"A": 18, "B": 18, "CE": 4, "SIGNEDA": 1, "SIGNEDB": 1, "RST": 4}
    inputs |= {"SOURCEA": 1, "SOURCEB": 1}
    settings = {f"REG_{name}_CLK": '"CLK0"' for name in ("INPUTA", "INPUTB", "OUTPUT")}
    settings["REG_PIPELINE_CLK"] = '"CLK0"' if pipeline else '"NONE"'
    enables = {"INPUTB": 1, "PIPELINE": 3, "OUTPUT": 2}
    settings |= {f"REG_{name}_CE": f'"CE{number}"' for name, number in enables.items()}
    about: Any = {"clocks": ["CLK0"], "single": "A B CE RST P", "parameters": settings}
    cell = Player("MULT18X18D", tmp_path, inputs, {"P": 36}, **about)
    rows = [[*row[:5], 0, 0, 0] for row in random_rows(rng, cell, 400)]
    a = b = middle = out = 0
    for row, (got,) in zip(rows, cell.play(rows), strict=True):
        assert got == out % (1 << 36)
        enabled = row[2]
        product = a * b
        if enabled >> 2 & 1:
            out = middle if pipeline else product
        if enabled >> 3 & 1:
            middle = product
        if enabled & 1:
            a = as_signed(row[0], 18) if row[3] else row[0]
        if enabled >> 1 & 1:
            b = as_signed(row[1], 18) if row[4] else row[1]


def test_ccu2c(rng, tmp_path):
    tables = [int(table) for table in rng.integers(0, 1 << 16, 2)]
    inputs = {"CIN": 1} | {f"{letter}{n}": 1 for n in range(2) for letter in "ABCD"}
    settings = {"INJECT1_0": '"NO"', "INJECT1_1": '"NO"', "INIT0": tables[0], "INIT1": tables[1]}
    outputs = dict.fromkeys(["S0", "S1", "COUT"], 1)
    cell = Player("CCU2C", tmp_path, inputs, outputs, parameters=settings)
    rows = [[number >> bit & 1 for bit in range(9)] for number in range(512)]
    for row, got in zip(rows, cell.play(rows), strict=True):
        carry, wanted = row[0], []
        for table, first in zip(tables, (1, 5), strict=True):
            a, b, c, d = row[first : first + 4]
            passed_on = table >> (a + 2 * b + 4 * c + 8 * d) & 1
            wanted.append(passed_on ^ carry)
            carry = carry if passed_on else table >> (a + 2 * b) & 1
        assert got == [*wanted, carry]


def test_sb_mac16(rng, tmp_path):
    free = {"A": 16, "B": 16, "CE": 1, "AHOLD": 1, "BHOLD": 1}
    zero = {f"{name}{side}": 1 for name in ("IRST", "ORST") for side in ("TOP", "BOT")}
    ones = ("A_REG", "B_REG", "A_SIGNED", "B_SIGNED", "MODE_8x8")
    ones += ("TOP_8x8_MULT_REG", "BOT_8x8_MULT_REG")
    settings = dict.fromkeys(ones, 1) | {"TOPOUTPUT_SELECT": 2, "BOTOUTPUT_SELECT": 2}
    cell = Player("SB_MAC16", tmp_path, free | zero, {"O": 32}, clocks=["CLK"], parameters=settings)
    rows = [[*row[:5], 0, 0, 0, 0] for row in random_rows(rng, cell, 400)]
    a = b = top = bottom = 0
    played = zip(rows, cell.play(rows), strict=True)
    for (new_a, new_b, enabled, a_held, b_held, *_), (got,) in played:
        assert got == (top % 65536) << 16 | bottom % 65536
        if enabled:
            top = as_signed(a >> 8, 8) * as_signed(b >> 8, 8)
            bottom = as_signed(a & 255, 8) * as_signed(b & 255, 8)
            a = a if a_held else new_a
            b = b if b_held else new_b


def word_bits(address, width):
    """Return the bits of a word among the 18 Kbit, and the enable of each, by its address."""
    if width >= 18:
        first = (address >> (5 if width == 36 else 4)) * width
        return [(first + n, address >> (n // 9) & 1) for n in range(width)]
    first = (address >> 3) * 9 + (0 if width == 9 else (address & 7) // width * width)
    return [(first + n, 1) for n in range(width)]


@pytest.mark.parametrize(
    ("width_a", "width_b", "mode"),
    [
        (36, 9, "NORMAL"),
        (4, 2, "WRITETHROUGH"),
        (18, 4, "READBEFOREWRITE"),
        (1, 18, "NORMAL"),
        pytest.param(36, 36, "NORMAL", marks=pytest.mark.slow),
        pytest.param(18, 18, "WRITETHROUGH", marks=pytest.mark.slow),
        pytest.param(9, 9, "READBEFOREWRITE", marks=pytest.mark.slow),
        pytest.param(9, 18, "NORMAL", marks=pytest.mark.slow),
        pytest.param(2, 1, "READBEFOREWRITE", marks=pytest.mark.slow),
    ],
)
def test_dp16kd(width_a, width_b, mode, rng, tmp_path):
    memory = [int(bit) for bit in rng.integers(0, 2, 1024 * 18)]
    settings = {"DATA_WIDTH_A": width_a, "DATA_WIDTH_B": width_b, "WRITEMODE_A": f'"{mode}"'}
    for n in range(64):
        words = [memory[(16 * n + k) * 18 :][:18] + [0, 0] for k in range(16)]
        bits = "".join(str(bit) for word in words for bit in word)
        settings[f"INITVAL_{n:02X}"] = f"320'h{int(bits[::-1], 2):080x}"
    free = {"ADA": 14, "ADB": 14, "DIA": 18, "DIB": 18, "CEA": 1, "CEB": 1, "WEA": 1}
    zero = {"WEB": 1, "RSTA": 1, "RSTB": 1, "CSA": 3, "CSB": 3}
    single = "ADA ADB DIA DIB DOA DOB CSA CSB"
    about: Any = {"clocks": ["CLKA", "CLKB"], "single": single, "parameters": settings}
    cell = Player("DP16KD", tmp_path, free | zero, {"DOA": 18, "DOB": 18}, **about)
    rows = []
    for row in random_rows(rng, cell, 600):
        # All addresses first, then few, so that words meet.
        high = 0x3FFF if len(rows) < 200 else 0x7F
        rows.append([row[0] & high, row[1] & high, *row[2:7], 0, 0, 0, 0, 0])
    out_a = out_b = 0
    for row, got in zip(rows, cell.play(rows), strict=True):
        if width_a == 36 > width_b:
            # A only writes.
            got[0] = out_a
        assert got == ([out_b & 0x3FFFF, out_b >> 18] if width_b == 36 else [out_a, out_b])
        address_a, address_b, low, high, enabled_a, enabled_b, write = row[:7]
        data = high << 18 | low
        old = memory.copy()
        written = set()
        if enabled_a and write:
            for n, (bit, enable) in enumerate(word_bits(address_a, width_a)):
                if enable:
                    memory[bit] = data >> n & 1
                    written.add(bit)
        if enabled_a and not (write and mode == "NORMAL"):
            source = memory if mode == "WRITETHROUGH" else old
            out_a = sum(source[p] << n for n, (p, _) in enumerate(word_bits(address_a, width_a)))
        if enabled_b:
            read = [(p, old[p] ^ (p in written)) for p, _ in word_bits(address_b, width_b)]
            out_b = sum(bit << n for n, (_, bit) in enumerate(read))


@pytest.mark.parametrize("setting", ["REGMODE_B", "CLKAMUX", "CSDECODE_A"])
def test_settings_without_a_model_are_refused(setting, tmp_path):
    about: Any = {"clocks": ["CLKA", "CLKB"], "single": "ADA DOB"}
    settings = {setting: '"OTHER"'}
    cell = Player("DP16KD", tmp_path, {"ADA": 14}, {"DOB": 18}, **about, parameters=settings)
    with pytest.raises(RuntimeError, match="DP16KD: wanted one writer"):
        cell.play([[0], [0]])
