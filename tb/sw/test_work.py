"""Share of a model that the host runs."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.cli import main
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.operators.registry import OPERATORS, runs_on_host
from celosia.sw.operators.work import host_share, macs


def _weights(*shape: int) -> np.ndarray:
    return np.ones(shape, np.int8)


def _image(kind: Any, weights: np.ndarray, bias: int) -> w.Chain:
    chain = w.Chain((1, 6, 7, 4), 1 / 128, dtype="int16")
    numbers = np.zeros(bias, np.int64)
    kind(weights=weights, weight_scale=0.01, bias=numbers, output_scale=1 / 128).add(chain)
    return chain


def _dense() -> w.Chain:
    chain = w.Chain((2, 4), 1 / 128, dtype="int16")
    w.FullyConnected(
        weights=_weights(3, 4), weight_scale=0.01, bias=np.zeros(3, np.int64), output_scale=1 / 128
    ).add(chain)
    return chain


def _product(**options: Any) -> w.Chain:
    chain = w.Chain((5, 4), 0, dtype="float32")
    second = np.ones((5, 3) if options else (4, 3), np.float32)
    chain.operator("BATCH_MATMUL", (4, 3) if options else (5, 3), [second], **options)
    return chain


#: Graph of one operator of the host, and its multiplications for each sample.
CASES = {
    "CONV_2D": (_image(w.Convolution, _weights(5, 3, 3, 4), 5), 6 * 7 * 5 * 36),
    "DEPTHWISE_CONV_2D": (_image(w.Depthwise, _weights(1, 3, 3, 8), 8), 6 * 7 * 8 * 9),
    "FULLY_CONNECTED": (_dense(), 12),
    "BATCH_MATMUL": (_product(), 5 * 3 * 4),
    "BATCH_MATMUL, transposed": (_product(adjX=True), 4 * 3 * 5),
}


@pytest.mark.parametrize("name", CASES)
def test_multiplications_of_the_host(name: str) -> None:
    chain, wanted = CASES[name]
    program = compile_graph(load(w.serialize(chain.graph())), preset("edge"))
    assert sum(map(macs, program.host)) == wanted and not program.layers
    assert host_share(program).endswith("on the host")


#: Kinds of operators that multiply by weights, or two matrices.
_MULTIPLIES = re.compile("Conv|CONV|MatMul|MATMUL|FULLY|LSTM|RNN|SVDF")
#: Steps of training: no report counts them.
_TRAINING = ("ShiftedConvolution", "TurnedConvolution")
_KINDS = sorted(filter(_MULTIPLIES.search, filter(runs_on_host, OPERATORS)))


@pytest.mark.parametrize("kind", _KINDS)
def test_no_multiplication_is_forgotten(kind: str) -> None:
    image, matrix = (Operand(0, "x", shape, "int8", 1, 0) for shape in ((2, 6, 6, 6), (6, 6)))
    ends = (image, replace(matrix, data=bytes(36)))
    operator = HostOperator("layer", kind, 0, ends, (image,), {})
    assert (macs(operator) > 0) == (kind not in _TRAINING)


def test_share_in_report_and_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A dense layer of 20 multiplications on the core, one of 60 on the host."""
    chain = w.Chain((1, 5), 0.5)
    w.FullyConnected(weights=_weights(4, 5), weight_scale=0.01, output_scale=0.5).add(chain)
    chain.operator("CAST", dtype="float32", scale=0)
    chain.operator("BATCH_MATMUL", (1, 15), [np.ones((4, 15), np.float32)])
    (tmp_path / "net.tflite").write_bytes(w.serialize(chain.graph()))
    np.save(tmp_path / "x.npy", np.ones((1, 5), np.int8))
    wanted = " of the bytes and 25.0% of the multiplications"
    assert main(["report", str(tmp_path / "net.tflite")]) == 0
    assert any(line.endswith(wanted) for line in capsys.readouterr().out.splitlines())
    assert main(["report", str(tmp_path / "net.tflite"), "--json", f"{tmp_path}/r.json"]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    work, layers = report["host"], report["layers"]
    counts = [(row["operator"], row["runs_on"], row["macs"]) for row in layers if row["macs"]]
    assert counts == [("FULLY_CONNECTED", "core", 20), ("BATCH_MATMUL", "host", 60)]
    assert report["total"]["macs"] == report["macs"] == 20
    capsys.readouterr()
    assert (work["operators"], work["macs"], work["macs_share"]) == (4, 60, 0.75)
    # The core moves the 5 and 4 bytes of its ends.
    assert work["bytes_share"] == work["bytes"] / (work["bytes"] + 9)
    # The smallest: 4 int8, and 4, 60 and 15 float32.
    assert work["bytes"] >= 4 + 4 * (4 + 4 + 60 + 15)
    ends = [f"--input={tmp_path}/x.npy", f"--output={tmp_path}/y.npy", "--device=machine"]
    ends.append(f"--stats={tmp_path}/s.json")
    assert main(["run", str(tmp_path / "net.tflite"), *ends]) == 0
    assert capsys.readouterr().out.rstrip().endswith(wanted)
    stats = json.loads((tmp_path / "s.json").read_text())
    assert stats["host"].items() >= work.items()
    assert 0 < stats["host"]["seconds"] < stats["seconds"]
