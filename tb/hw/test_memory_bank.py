"""Banks of large memories, against a list of words."""

import pytest
from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib.memory import Memory
from icarus import Player

from celosia.hw.memory import bank
from celosia.hw.memory.bank import LargeBank, bank_of


def test_large_memories_have_other_banks():
    assert isinstance(bank_of(unsigned(9), depth=1 << 13, banks=16), Memory)
    large = bank_of(signed(9), depth=1 << 14, banks=16)
    assert isinstance(large, LargeBank)
    assert large.read_port().data.shape() == Shape(9, signed=True)
    assert len(large.write_port().addr) == 14


@pytest.mark.cosim
@pytest.mark.parametrize(("width", "depth"), [(8, 5), (33, 64), (1, 2)])
def test_words_are_read_one_cycle_later(width, depth, rng, tmp_path, icarus):
    bits = (depth - 1).bit_length()
    player = Player(
        bank.NAME,
        tmp_path,
        {"we": 1, "wa": bits, "wd": width, "ra": bits},
        {"rd": width},
        parameters={"WIDTH": width, "DEPTH": depth, "BITS": bits},
        clocks=["clk"],
        verilog=bank.TEXT,
    )
    words, wanted, given = [0] * depth, [[0]], []
    for _ in range(300):
        wa, ra = rng.choice(depth, 2, replace=False)
        row = [int(rng.integers(2)), int(wa), int(rng.integers(1 << width)), int(ra)]
        wanted.append([words[ra]])
        if row[0]:
            words[wa] = row[2]
        given.append(row)
    assert player.play(given) == wanted[:-1]
