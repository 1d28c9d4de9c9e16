"""``celosia mlperf``: all models of MLPerf Tiny beside published results."""

import argparse
import json
import os
import re
import sys
import tty
from importlib import import_module
from pathlib import Path

from tqdm import tqdm

from celosia import InputError
from celosia.hw.environment.extras import install_command
from celosia.sw.cli.arguments import (
    Commands,
    add_device,
    add_output,
    add_preset,
    board_of,
    seeds,
    whole,
)
from celosia.sw.cli.messages import Failure, Missing
from celosia.sw.files import directory_of, json_bytes, writable, write_atomically
from celosia.sw.networks.comparison import of_board, of_core
from celosia_examples.mlperf import page
from celosia_examples.mlperf.benchmark import Benchmark, model_files, run_benchmark
from celosia_examples.mlperf.device import TASKS, serve
from celosia_examples.mlperf.published import Model
from celosia_examples.mlperf.submission import (
    device_of,
    labels_of,
    readme,
    run_modes,
    summary,
    system,
    tasks_of,
)

_ENDINGS = (".md", ".html", ".json")


def add_mlperf(command: Commands) -> None:
    """Add ``celosia mlperf``."""
    parser = command("mlperf", "compare and count the models of MLPerf Tiny", run)
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", help="folder of the models ($CELOSIA_MODELS)"
    )
    add_device(parser, "machine")
    parser.add_argument(
        "--inputs", type=whole, default=20, metavar="N", help="random inputs of each model (20)"
    )
    parser.add_argument("--seed", type=seeds, default=0, metavar="S", help="seed of the inputs (0)")
    add_preset(parser)
    parser.add_argument(
        "--board",
        nargs="+",
        default=["ulx3s-85f"],
        metavar="BOARD",
        help="core, memory and clock of these boards, too (ulx3s-85f)",
    )
    parser.add_argument(
        "--submission", type=Path, metavar="FOLDER", help="instead, folder of a submission to write"
    )
    parser.add_argument(
        "--serial", choices=TASKS, help="instead, be the device of this model at a serial port"
    )
    parser.add_argument("--submitter", metavar="NAME", help="with --submission (celosia)")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with --submission: the benchmark's data sets"
    )
    add_output(parser, f"page to write, by its ending: {', '.join(_ENDINGS)}; else printed")


def run(arguments: argparse.Namespace) -> None:
    """Write or print the page; fail if a byte differs."""
    output = arguments.output
    if output and output.suffix not in _ENDINGS:
        raise InputError(f"mlperf: wanted a file that ends in {', '.join(_ENDINGS)}, got {output}")
    if sum(map(bool, (output, arguments.submission, arguments.serial))) > 1:
        raise InputError("mlperf: wanted one of -o, --submission and --serial")
    for option, value in (("--data", arguments.data), ("--submitter", arguments.submitter)):
        if value is not None and not arguments.submission:
            raise InputError(f"mlperf: {option} wants --submission, got none")
    if arguments.device not in ("machine", "rtl"):
        raise InputError(f"mlperf: wanted the device machine or rtl, got {arguments.device}")
    folder = arguments.models or os.environ.get("CELOSIA_MODELS")
    files = model_files(Path(folder) if folder else None)
    writable(output, sources=tuple(files.values()))
    if arguments.serial:
        _serve(arguments, files)
        return
    if arguments.submission:
        _submit(arguments, files)
        return
    settings = [of_core(arguments.preset)]
    settings += [of_board(board_of(name)) for name in dict.fromkeys(arguments.board)]
    try:
        import_module("ai_edge_litert.interpreter")
    except ImportError:
        hint = install_command("litert")
        raise Missing(f"mlperf: LiteRT is not installed: {hint}") from None
    benchmark = run_benchmark(
        files, settings, device=arguments.device, inputs=arguments.inputs, seed=arguments.seed
    )
    if output:
        write_atomically({output: _text(benchmark, output.suffix).encode()})
    else:
        print(_text(benchmark, ".md"), end="")
    wrong = [
        f"{result.different:,} of {result.compared:,} of {result.model.name} on {setting.name}"
        for setting, results in benchmark.by_setting.items()
        for result in results
        if result.different
    ]
    if wrong:
        raise Failure(f"mlperf: output bytes differ from LiteRT: {'; '.join(wrong)}")


def _submit(arguments: argparse.Namespace, files: dict[Model, Path]) -> None:
    """Write the folder of a submission: one board, the tasks that load an input each time."""
    folder = arguments.submission
    if len(arguments.board) != 1:
        raise InputError(f"--submission: wanted one --board, got {len(arguments.board)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: wanted a new or an empty folder")
    (name,) = arguments.board
    submitter = "celosia" if arguments.submitter is None else arguments.submitter
    if not re.fullmatch(r"\w[\w-]*", submitter):
        raise InputError(f"--submitter: wanted letters and digits, got {submitter!r}")
    setting = of_board(board_of(name))
    top = folder / "closed" / submitter
    tasks = tasks_of(files)
    if arguments.data:
        for task, _ in tasks.values():
            labels_of(arguments.data, task)
    directory_of(folder)
    how = {"machine": "estimated cycles", "rtl": "cycles counted by the RTL"}[arguments.device]
    contents = {
        top / "systems" / f"{name}.json": json_bytes(system(setting, how)),
        top / "code" / "README.md": readme(name, arguments.device, tasks),
    }
    for model, (task, path) in tqdm(tasks.items(), unit="model", delay=1, disable=None):
        with device_of(path, task, setting, arguments.device) as device:
            results = run_modes(device, vars(arguments))
        for mode, made in results.items():
            place = top / "results" / name / task.code / mode
            contents |= {place / file: content for file, content in made.items()}
        print(f"{model.name:<4} {', '.join(map(summary, results.values()))}")
    for path in contents:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(contents)
    if not arguments.data:
        print("no accuracy, which a submission must have: wanted --data", file=sys.stderr)


def _serve(arguments: argparse.Namespace, files: dict[Model, Path]) -> None:
    """Print the name of a serial port, and respond to commands there until it is interrupted."""
    if len(arguments.board) != 1:
        raise InputError(f"--serial: wanted one --board, got {len(arguments.board)}")
    setting = of_board(board_of(arguments.board[0]))
    (path,) = (path for model, path in files.items() if model.name == arguments.serial)
    with device_of(path, TASKS[arguments.serial], setting, arguments.device) as device:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        print(os.ttyname(theirs), flush=True)
        serve(device, ours)


def _text(benchmark: Benchmark, ending: str) -> str:
    if ending == ".json":
        return json.dumps(page.as_dict(benchmark), indent=2) + "\n"
    if ending == ".html":
        return page.as_html(benchmark)
    return f"# {page.TITLE}\n\n{page.as_markdown(benchmark)}"
