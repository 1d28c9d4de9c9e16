"""``celosia run``: a model or a program on inputs."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import PRESETS
from celosia.sw.cli import inputs, raw
from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_cores,
    add_device,
    add_files,
    add_machine,
    add_shape,
    add_signature,
    add_waves,
    add_workers,
    device_options,
    report_choices,
    shapes_of,
    wave_files,
    workers_of,
)
from celosia.sw.compiler.compile import compile_graph, compile_up_to
from celosia.sw.files import json_bytes, writable, write_atomically
from celosia.sw.frontend.source import files_of
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import Program
from celosia.sw.operators.work import host_share
from celosia.sw.runtime.opening import open_session, read_source
from celosia.sw.runtime.session import InputError, Statistics
from celosia.sw.runtime.shards import run_on_workers
from celosia.sw.shipped import model_path
from celosia.sw.workers.spread import Workers

#: Inputs of one run, at most, unless the option gives them.
_BATCH = 64


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("run", "run a model, a program or bare instructions", run)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help=".tflite or .onnx file, program, words of instructions, or a shipped model",
    )
    add_files(parser, "--input", "[NAME=]FILE", ".npy, .npz, picture or folder of pictures")
    add_files(parser, "--output", "[NAME=]FILE", ".npy, or .npz for all outputs")
    inputs.add_conversions(parser)
    add_signature(parser)
    add_device(parser, "rtl")
    add_shape(parser)
    add_batch(parser, None, f"inputs of one run (up to {_BATCH})")
    add_cores(parser)
    add_workers(parser)
    parser.add_argument(
        "--stats", type=Path, metavar="S.json", help="also write cycles and counters"
    )
    add_waves(parser)
    add_machine(parser, None)
    _add_memory(parser)


def _add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the options of bare instructions."""
    group = parser.add_argument_group("bare instructions")
    text = "external memory to write afterwards: .npy, or bytes"
    add_files(group, "--memory", "ADDRESS=FILE", "contents of external memory: .npy, or bytes")
    add_files(group, "--dump", "ADDRESS:BYTES=FILE", text)


def run(arguments: argparse.Namespace) -> None:
    """Run a model or a program on inputs."""
    model, config = model_path(arguments.model), arguments.preset
    if raw.is_raw(model):
        raw.run(model, arguments)
        return
    source = read_source(model, shapes_of(arguments), arguments.signature)
    if arguments.memory or arguments.dump:
        raise InputError(f"{model}: --memory and --dump are for bare instructions")
    ins, outs = inputs.ends_of(source)
    if not arguments.input or not arguments.output:
        raise InputError(f"{model}: wanted --input and --output")
    files = inputs.targets(f"{model.name}: --output", arguments.output, outs)
    inputs.require_arrays(files)
    paths = [files] if isinstance(files, Path) else list(files.values())
    samples = inputs.gather(f"{model.name}: --input", arguments.input, ins)
    sources = (*files_of(model), *inputs.sources_of(arguments.input, ins))
    writable(*paths, arguments.stats, *wave_files(arguments), sources=sources)
    batch = arguments.batch
    if isinstance(source, Program):
        program = source
        program.require(config or program.config, str(model))
    else:
        report_choices(source, arguments.signature)
        share = -(-inputs.count_of(samples) // arguments.cores)
        program = compiled(source, config or PRESETS["edge"], batch, min(_BATCH, share))
    if batch and batch != program.batch:
        raise InputError(
            f"{model}: program was compiled for batch {program.batch}, got --batch {batch}"
        )
    arrays = inputs.prepare(samples, program.inputs, arguments)
    results, costs = carried_out(program, arrays, arguments)
    contents: dict[str | Path, bytes] = {**inputs.written(files, outs, results)}
    pace = _pace(costs, arguments.board)
    if arguments.stats:
        report = costs.as_dict() | pace
        contents[arguments.stats] = json_bytes(report)
    write_atomically(contents)
    print(_summary(costs, arguments.device, pace))


def compiled(graph: Graph, config: Config, batch: int | None, default: int) -> Program:
    """Return the program of a graph for the batch of an option, or up to the default."""
    if batch:
        return compile_graph(graph, config, batch)
    return compile_up_to(graph, config, default)


def carried_out(
    program: Program, arrays: list[np.ndarray], arguments: argparse.Namespace
) -> tuple[list[np.ndarray], Statistics]:
    """Return outputs and costs of a program on the device and the processes of the arguments."""
    device, options = arguments.device, device_options(arguments)
    workers = workers_of(arguments)
    if "cores" in options and program.variables:
        raise InputError(f"--cores: wanted a model without state, got {program.name}")
    if device in ("machine", "rtl") and (workers != Workers() or not program.variables):
        results, costs = run_on_workers(program, device, options, arrays, workers)
    elif workers != Workers():
        raise InputError(f"--workers: wanted machine or rtl as device, got {device}")
    else:
        with open_session(program, device=device, **options) as session:
            results, costs = session.run(arrays, progress=True), session.statistics
    return results, costs


def _pace(costs: Statistics, board: Any) -> dict[str, Any]:
    """Return the inputs per second of a board at its clock; nothing without a board."""
    if not board or not costs.cycles_per_input:
        return {}
    pace = board.clock_hz / costs.cycles_per_input
    return {"board": board.name, "clock_hz": board.clock_hz, "inputs_per_second": pace}


def _summary(costs: Statistics, device: str, pace: dict[str, Any]) -> str:
    text = f"{costs.inputs} inputs on {device} in {costs.seconds:.2f} s"
    if costs.cycles_per_input and costs.utilisation:
        text += f", {costs.cycles_per_input:,.1f} cycles per input at batch {costs.program.batch}"
        text += f", {costs.utilisation:.1%} of the multipliers in use"
    if share := host_share(costs.program):
        text += f", {share}"
    if costs.array == "twin":
        text += ", with a twin of the array"
    if pace:
        text += f", {pace['inputs_per_second']:,.1f} a second at {pace['clock_hz'] / 1e6:g} MHz"
    return text
