"""``celosia paper``: networks of the first TPU's paper, estimated on a core of its size."""

import argparse
from typing import TYPE_CHECKING

from tqdm import tqdm

from celosia import InputError, preset
from celosia.sw.cli.arguments import (
    Commands,
    add_batch,
    add_files,
    add_output,
    board_of,
    number,
)
from celosia.sw.files import writable, write_atomically
from celosia.sw.shipped import model_path

if TYPE_CHECKING:
    from celosia_examples.paper.text import Setting

#: MUL of two tensors is an option; LSTM cells need it.
_CORE = "tpu_v1,elementwise_products=true"


def add_paper(command: Commands) -> None:
    """Add ``celosia paper``."""
    parser = command("paper", "compare a core of the first TPU's size with the TPU's paper", run)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="of the paper (all six)")
    parser.add_argument(
        "--memory",
        type=number,
        default=30.0,
        metavar="GB/S",
        help="external memory of the core (30)",
    )
    add_output(parser, "roofline to write, PNG")
    add_files(
        parser, "--cpu", "MODEL", "instead, compare cores with one thread of this CPU: .tflite file"
    )
    parser.add_argument("--board", default="ulx3s-85f", help="with --cpu (ulx3s-85f)")
    add_batch(parser, 16, "inputs of one run, with --cpu (16)")


def run(arguments: argparse.Namespace) -> None:
    """Print the table and write the roofline."""
    from celosia_examples.paper.published import CLOCK_HZ
    from celosia_examples.paper.text import Setting

    if not arguments.memory > 0:
        raise InputError(f"--memory: wanted more than 0 GB/s, got {arguments.memory:g}")
    setting = Setting(preset(_CORE), CLOCK_HZ, arguments.memory * 1e9)
    if not arguments.cpu:
        _paper(arguments, setting)
        return
    if arguments.networks:
        raise InputError("--cpu: wanted no NETWORK beside it")
    _processor(arguments, setting)


def _paper(arguments: argparse.Namespace, setting: "Setting") -> None:
    from celosia_examples.paper.networks import NETWORKS, build
    from celosia_examples.paper.published import WORKLOADS
    from celosia_examples.paper.shares import measure
    from celosia_examples.paper.text import as_text, draw

    wrong = [name for name in arguments.networks if name not in NETWORKS]
    if wrong:
        raise InputError(f"paper: wanted some of {', '.join(NETWORKS)}, got {wrong[0]!r}")
    writable(arguments.output)
    results = {}
    progress = tqdm(arguments.networks or NETWORKS, unit="network", leave=False)
    for name in progress:
        # A network takes up to a minute: its name is shown at once.
        progress.set_description(name)
        network = build(name)
        results[name] = (
            network,
            measure(network, setting.config, WORKLOADS[name].batch, setting.bandwidth),
        )
    if arguments.output:
        write_atomically({arguments.output: draw(results, setting)})
    print(as_text(results, setting))
    if arguments.output:
        print(f"written: {arguments.output}")


def _processor(arguments: argparse.Namespace, setting: "Setting") -> None:
    from celosia_examples.paper.processor import LATENCY, Core, as_text, compare

    board = board_of(arguments.board)
    memory = board.memory_latency, board.memory_bandwidth
    cores = [
        Core(board.name, board.config, *memory, board.clock_hz),
        Core("tpu_v1", setting.config, LATENCY, setting.bandwidth, setting.clock_hz),
    ]
    models = [model_path(name) for name in arguments.cpu]
    print(as_text([compare(m, cores, arguments.batch) for m in models], cores, arguments.batch))
