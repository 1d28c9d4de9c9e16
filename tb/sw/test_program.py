import os
import struct
from pathlib import Path

import numpy as np
import pytest

from celosia.hw.arch.config import PROGRAM_BYTES
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.files import write_atomically
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import Program, ProgramError


@pytest.fixture(scope="module")
def program() -> Program:
    from networks import FullyConnected, write_fully_connected

    weights = np.arange(-30, 30, dtype=np.int8).reshape(6, 10)
    layer = FullyConnected(weights=weights, weight_scale=0.01, output_scale=0.5)
    model = write_fully_connected([layer], input_scale=0.1, input_zero_point=3)
    return compile_graph(load(model), preset("nano"), 5)


def test_round_trip(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "small.celosia"
    program.save(path)
    assert Program.load(path) == program
    assert [file.name for file in tmp_path.iterdir()] == ["small.celosia"]


def test_what_it_holds(program: Program) -> None:
    assert program.config == preset("nano") and program.batch == 5
    (source,), (result,) = program.inputs, program.outputs
    assert (source.name, source.shape, source.zero_point) == ("input", (10,), 3)
    assert source.scale == pytest.approx(0.1) and result.shape == (6,)
    assert program.macs == 60
    assert len(program.main.layers) == program.main.count
    assert program.main.address % PROGRAM_BYTES == 0


def test_every_changed_byte_is_seen(program: Program) -> None:
    content = program.to_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        with pytest.raises(ProgramError):
            Program.from_bytes(bytes(changed))


def test_every_truncation_is_seen(program: Program) -> None:
    content = program.to_bytes()
    for length in range(0, len(content), 5):
        with pytest.raises(ProgramError):
            Program.from_bytes(content[:length])


def test_other_version(program: Program) -> None:
    content = bytearray(program.to_bytes())
    struct.pack_into("<I", content, 8, 99)
    with pytest.raises(ProgramError, match="wanted version 5 of the program file, got 99"):
        Program.from_bytes(bytes(content))


def test_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="nothing: no such file"):
        Program.load(tmp_path / "nothing")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ProgramError, match="other: not a program file"):
        Program.load(tmp_path / "other")


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_atomically({tmp_path / "first": b"1", tmp_path / "no" / "second": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_write_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomically({path: b"new"})
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to() -> None:
    """By the path that a shell gives a pipe, which resolves to none."""
    reads, writes = os.pipe()
    write_atomically({f"/dev/fd/{writes}": b"through"})
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        assert pipe.read() == b"through"
