"""Rows of a report, bounds and sections of layers."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import networks as w
import numpy as np
import pytest
from whole_networks.small import compiled, convolution, dense

from celosia.hw.arch.config import PROGRAM_BYTES
from celosia.hw.arch.isa import Instruction, Opcode, Unit
from celosia.hw.arch.presets import preset
from celosia.sim.check.hazards import check_hazards
from celosia.sim.timing.cycles import estimate
from celosia.sw.compiler import report, report_text
from celosia.sw.compiler.compile import compile_steps
from celosia.sw.compiler.compiled import Compiled, bounds, layer_sections
from celosia.sw.compiler.emit.access import Step
from celosia.sw.compiler.report import Alone, Measured
from celosia.sw.driver.core import RunResult
from celosia.sw.evaluate import Evaluation
from celosia.sw.files import json_bytes
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph
from celosia.sw.runtime.backends import open_device
from celosia.sw.runtime.machine import MachineDevice
from celosia.sw.runtime.session import Session, Statistics

#: Of a report as CSV since there is one; new ones follow.
FIRST = "layer,operator,runs_on,macs,cycles,cycles_per_input,utilisation,bytes,setup_bytes,weights"

CASES = [
    ("edge", 1),
    ("edge", 3),
    ("micro", 2),
    ("nano", 1),
    ("nano,weight_tiles=16", 2),
    ("micro,unified_bytes=1024", 2),
]


def finishes(made: Compiled) -> list[int]:
    return [c.finish for c in estimate(made.program.main.code, made.program.config).instructions]


def bare(instruction: Instruction) -> Instruction:
    """Return an instruction without its semaphores."""
    return Instruction(instruction.opcode, **instruction.fields | {"wait": 0, "post": 0})


@pytest.mark.parametrize(
    ("batch", "rows", "wanted"),
    [
        # 2 steps x 2 tiles x 784 pixels; 50 x 4 x 196; 196 x 8 tiles that load in 16 cycles; 8 x 1.
        (1, 1, [3136, 39200, 196 * 8 * 16, 8 * 16]),
        (1, 4, [3136, 39200, 196 * 8 * 4, 8 * 4]),
        (16, 1, [16 * 3136, 16 * 39200, 196 * 8 * 16, 8 * 16]),
        (64, 1, [64 * 3136, 64 * 39200, 196 * 8 * 64, 8 * 64]),
    ],
)
def test_bounds(batch: int, rows: int, wanted: list[int]) -> None:
    layers = [
        *(convolution(32, 5, 1), w.Pool(), convolution(64, 5, 32), w.Pool()),
        *(w.Reshape(shape=(1, 3136)), dense(128, 3136), dense(10, 128)),
    ]
    graph = load(w.write_sequential(layers, input_shape=(1, 28, 28, 1), input_scale=0.5))
    made = compile_steps(graph, preset(f"edge,weight_rows={rows}"), 1)
    made = replace(made, program=replace(made.program, batch=batch))
    assert bounds(made) == wanted


def test_bounds_count_the_pixels_of_the_model_and_not_layers_without_weights() -> None:
    layers = [convolution(4, 3, 1), w.Pool(), w.Mean()]
    graph = load(w.write_sequential(layers, input_shape=(1, 15, 15, 1), input_scale=0.5))
    assert bounds(compile_steps(graph, preset("nano"), 2)) == [2 * 3 * 1 * 225, 0]


@pytest.mark.parametrize("kind", ["bands", "blocks", "rows", "two computed"])
def test_bounds_count_every_sample_of_the_file(kind: str) -> None:
    """An operator that mixes the samples lets the part before it run once for each of them."""

    def found(samples: int) -> list[int]:
        chain = w.Chain((samples, 16, 16, 8), 0.5)
        weights = convolution(8, 3, 1).weights.transpose(3, 1, 2, 0)
        scales: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.5}
        layers: dict[str, list[w.Layer]] = {
            "bands": [w.Depthwise(weights=weights, **scales)],
            "blocks": [convolution(8, 3, 8)],
            "rows": [w.Reshape(shape=(samples, 2048)), dense(10, 2048)],
        }
        for layer in layers.get(kind, ()):
            layer.add(chain)
        if kind not in layers:
            other = chain.input("other", (samples, 16, 8, 5), 0.25)
            chain.operator("BATCH_MATMUL", (samples, 16, 16, 5), inputs=[0, other], scale=1.0)
        axes = [w.Constant(np.array([0], np.int32))]
        chain.operator("REVERSE_V2", chain.last.shape, axes)
        sizes = preset("edge,activation_weights=true")
        made = compile_steps(load(w.serialize(chain.graph())), sizes, 2)
        (part,) = made.program.parts
        assert part.items == samples and bool(made.parts[0].bands) == (kind == "bands")
        return bounds(made)

    assert found(3) == [3 * bound for bound in found(1)] != [0]


@pytest.mark.parametrize(("sizes", "batch"), CASES)
def test_sections_are_the_program_cut_where_the_layer_changes(sizes: str, batch: int) -> None:
    made = compiled(sizes, batch)
    parts, main = layer_sections(made), made.program.main
    work = [bare(i) for part in parts for i in part.section.instructions[:-1]]
    assert work == [bare(i) for i in main.instructions[:-1]]
    assert [n for part in parts for n in part.section.layers[:-1]] == list(main.layers[:-1])
    end = made.program.memory_bytes
    for part in parts:
        section = part.section
        assert section.address == end and section.address % PROGRAM_BYTES == 0
        end = section.end
        assert section.instructions[-1].opcode is Opcode.HALT and section.layers[-1] == -1
        zipped = zip(section.instructions[:-1], section.layers[:-1], strict=True)
        assert {layer for i, layer in zipped if i.unit is not Unit.LOAD} == {part.layer}
    numbers = [part.layer for part in parts]
    assert all(a != b for a, b in zip(numbers, numbers[1:], strict=False))
    assert set(numbers) == set(range(len(made.program.layers)))


@pytest.mark.parametrize(("sizes", "batch"), CASES)
def test_sections_one_after_the_other_do_what_the_program_does(sizes: str, batch: int) -> None:
    made = compiled(sizes, batch)
    parts = layer_sections(made)
    codes = [made.program.setup.code, *(part.section.code for part in parts)]
    check_hazards(codes, made.program.config)
    x = np.random.default_rng(batch).integers(-128, 128, (batch, 14, 14, 1)).astype(np.int8)
    outputs = []
    for order in ([made.program.main], [part.section for part in parts]):
        device = open_device("machine", made.program.config, made.program.memory_bytes)
        with Session(made.program, device):
            device.write(made.program.inputs[0].address, x.tobytes())
            assert isinstance(device, MachineDevice)
            for section in order:
                device.machine.run(section.code)
            outputs.append(device.read(made.program.parts[0].outputs[0].address, 10 * batch))
    assert outputs[0] == outputs[1] != bytes(10 * batch)


def test_loads_right_before_the_work_of_their_layer_go_with_it() -> None:
    def step(opcode: Opcode, layer: int, number: int) -> Step:
        fields = {"channels": number} if opcode is Opcode.FILL else {"length": number}
        return Step(Instruction(opcode, **fields), (), layer)

    load, fill = Opcode.LOAD, Opcode.FILL
    order = [(load, 0), (fill, 0), (load, 1), (fill, 0), (load, 2), (load, 1), (load, 2), (fill, 1)]
    steps = tuple(step(*what, number) for number, what in enumerate(order, 1))
    made = compiled("nano", 1)
    parts = layer_sections(replace(made, parts=(replace(made.parts[0], steps=steps),)))
    assert [part.layer for part in parts] == [0, 1]
    assert [part.section.layers for part in parts] == [(0, 0, 1, 0, 2, -1), (1, 2, 1, -1)]


def test_rows() -> None:
    made = compiled("edge", 3)
    program = made.program
    table = report.rows(program, finishes(made), bounds(made))
    *layers, host, total = table
    assert [row.layer for row in layers] == [layer.name for layer in program.layers]
    assert (host.operator, host.runs_on, host.cycles, host.bound) == ("SOFTMAX", "host", 0, 0)
    assert total.layer == "total" and total.macs == program.macs
    whole = estimate(program.main.code, program.config).total
    assert total.cycles == sum(row.cycles for row in layers) == whole
    assert total.bound == sum(bounds(made)) == sum(row.bound for row in layers)
    assert [row.bound for row in layers] == bounds(made)
    assert total.cycles_per_input == whole / 3
    assert total.utilisation == program.macs * 3 / (whole * 256)
    assert all(row.difference is None for row in table)
    assert {row.weights for row in layers} == {"resident", ""}
    moved = sum(i.rows * i.length for i in program.main.instructions if "length" in i.fields)
    assert total.bytes == moved


def test_cycles_count_for_the_layer_at_work_not_for_the_one_that_loads_ahead() -> None:
    made = compiled("nano,weight_tiles=16", 2)
    table = report.rows(made.program, finishes(made))
    alone = [0] * len(made.program.layers)
    for part in layer_sections(made):
        alone[part.layer] += estimate(part.section.code, made.program.config).total
    for row, cycles in zip(table, alone, strict=False):
        assert row.cycles <= cycles * 1.05


def measured(made: Compiled) -> Measured:
    layers = tuple(Alone(1000 + n, 1000) for n in range(len(made.program.layers)))
    return Measured(layers, whole=Alone(950, 1000), setup=Alone(0, 0))


def test_measured_rows() -> None:
    made = compiled("edge", 3)
    table = report.rows(made.program, finishes(made), bounds(made), measured(made))
    *layers, host, total = table
    assert [row.estimated_alone for row in layers] == [1000 + n for n in range(len(layers))]
    assert {row.counted_alone for row in layers} == {1000}
    assert layers[1].difference == pytest.approx(0.001)
    assert host.counted_alone is None
    sums = sum(1000 + n for n in range(len(layers))), 1000 * len(layers)
    assert (total.estimated_alone, total.counted_alone) == sums
    assert total.difference == pytest.approx(sums[0] / sums[1] - 1)


def test_csv_and_json() -> None:
    made = compiled("edge", 3)
    plain = report.rows(made.program, finishes(made), bounds(made))
    text = report.as_csv(plain)
    assert text.startswith(FIRST + ",")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == len(plain) and lines[0]["counted_alone"] == ""
    assert int(lines[0]["bound"]) == bounds(made)[0]
    content = json.loads(json_bytes(report.as_dict(made.program, plain, 7, peak=999)))
    assert content["setup_cycles"] == 7 and content["whole"] is None
    assert content["peak_bytes"] == 999
    assert len(content["layers"]) == len(made.program.layers) + 1
    table = report.rows(made.program, finishes(made), bounds(made), measured(made))
    content = report.as_dict(made.program, table, 7, measured(made), peak=999)
    assert content["whole"] == {"estimated": 950, "counted": 1000}
    assert content["layers"][1]["counted_alone"] == content["setup"]["counted"] + 1000 == 1000


def test_every_field_is_documented(root: Path) -> None:
    made = compiled("edge", 3)
    program = made.program
    table = report.rows(program, finishes(made), bounds(made))
    content = report.as_dict(program, table, 7, peak=999)
    statistics = Statistics(program)
    statistics.add(RunResult(cycles=1), 2, 0.5)
    evaluation = Evaluation(
        dataset="d",
        device="machine",
        classes=("a", "b"),
        confusion=np.eye(2, dtype=np.int64),
        statistics=statistics,
    )
    fields = {*content, *content["total"], *evaluation.as_dict()}
    assert content["cycles_estimated"] == content["total"]["cycles"] > 0
    assert content["macs"] == program.macs and content["reload_cycles"] == 0
    text = (root / "docs" / "reference" / "json.md").read_text()
    assert not {field for field in fields if f"`{field}`" not in text}


def test_table_for_people() -> None:
    made = compiled("micro,unified_bytes=1024", 2)
    table = report.rows(made.program, finishes(made), bounds(made))
    lines = report_text.as_text(made.program, table, 7, peak=999).splitlines()
    assert lines[0] == "model on micro,unified_bytes=1024, batch 2; cycles are estimates"
    assert lines[2].split()[:5] == ["layer", "operator", "runs", "on", "MACs"]
    assert any("SOFTMAX" in line and "host" in line for line in lines)
    noted = [layer for layer in made.program.layers if layer.note]
    assert noted and all(f"{layer.name}: {layer.note}" in lines for layer in noted)
    assert lines[-2:] == ["unified buffer: 999 of 1,024 bytes", "one-time load: 7 cycles"]


def test_measured_table_for_people() -> None:
    made = compiled("edge", 3)
    found = measured(made)
    table = report.rows(made.program, finishes(made), bounds(made), found)
    lines = report_text.as_text(made.program, table, 7, found, peak=999).splitlines()
    assert lines[2].split()[-4:] == ["bound", "estimate", "measured", "difference"]
    assert lines[5].split()[-3:] == ["1,001", "1,000", "+0.1%"]
    assert "whole program: estimated 950, measured 1,000 cycles (-5.0%)" in lines
    assert "one-time load: estimated 0, measured 0 cycles (+0.0%)" in lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("dense", "dense"),
        ("model_1/dense_1/MatMul;model_1/dense_1/Relu;model_1/dense_1/BiasAdd", "dense"),
        ("model/dense/MatMul;model/dense_1/Relu", "dense"),
        ("MatMul;Relu;add", "MatMul"),
        ("one/very/long/name/of/a/layer/conv2d_7", "long/name/of/a/layer/conv2d_7"),
        ("model/" + "x" * 20 + "_and_then_more", "..." + "x" * 15 + "_and_then_more"),
    ],
)
def test_long_names_stay_readable(name: str, shown: str) -> None:
    made = compiled("edge", 1)
    layer = replace(made.program.layers[0], name=name)
    program = replace(made.program, layers=(layer, *made.program.layers[1:]))
    table = report.rows(program, finishes(made))
    line = report_text.as_text(program, table, 0, peak=0).splitlines()[4]
    assert line.split("  ")[0] == shown


def test_no_two_layers_have_the_same_name() -> None:
    made = compiled("edge", 1)
    names = ["a", "a", "a (2)", "m/x/S;m/y/C", "m/x/S;m/y/D"]
    own = made.program.layers
    layers = [replace(layer, name=name) for layer, name in zip(own, names, strict=True)]
    program = replace(made.program, layers=tuple(layers))
    found = [row.layer for row in report.rows(program, finishes(made))[: len(names)]]
    assert found == ["a", "a (3)", "a (2)", *names[3:]]


def test_bytes_of_parameters_count_the_table_of_a_layer() -> None:
    def graph(*more: w.Layer) -> Graph:
        return load(w.write_sequential([dense(8, 16), *more], input_shape=(1, 16), input_scale=0.5))

    plain, tabled = (
        compile_steps(graph(*more), preset("edge"))
        for more in ([], [w.Function(kind="LOGISTIC", output_scale=1 / 256)])
    )
    ((one,), (other,)) = (made.program.layers for made in (plain, tabled))
    assert other.parameter_bytes == one.parameter_bytes + 256
