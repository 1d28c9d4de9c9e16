"""``celosia networks``: a table of the networks in some files or folders."""

import argparse
from functools import partial
from importlib import import_module
from pathlib import Path

from tqdm import tqdm

from celosia.hw.environment.extras import install_command
from celosia.sw.cli.arguments import (
    Commands,
    add_output,
    add_preset,
    add_workers,
    board_of,
    seeds,
    whole,
    workers_of,
)
from celosia.sw.cli.messages import Failure, Missing
from celosia.sw.files import json_bytes, read_file, writable, write_atomically
from celosia.sw.networks import page
from celosia.sw.networks.comparison import of_board, of_core
from celosia.sw.networks.table import files_of, network
from celosia.sw.networks.vela import cycles_of, require_vela
from celosia.sw.runtime.session import InputError
from celosia.sw.workers.spread import spread

_ENDINGS = (".md", ".json")


def add_parsers(command: Commands) -> None:
    """Add the command."""
    parser = command("networks", "compare and estimate all networks of a folder", run)
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=".tflite file, folder of such files, or name of a shipped model",
    )
    parser.add_argument(
        "--inputs", type=whole, default=2, metavar="N", help="random inputs of each network (2)"
    )
    parser.add_argument("--seed", type=seeds, default=0, metavar="S", help="seed of the inputs (0)")
    add_preset(parser)
    parser.add_argument(
        "--board", nargs="+", default=[], metavar="BOARD", help="times on these boards, too"
    )
    parser.add_argument("--vela", action="store_true", help="cycles that Vela estimates, too")
    add_workers(parser)
    add_output(parser, "page (.md) or figures (.json) to write; else printed")


def run(arguments: argparse.Namespace) -> None:
    """Write or print the table; fail if a byte differs."""
    output, numbers = arguments.output, {"inputs": arguments.inputs, "seed": arguments.seed}
    if output and output.suffix not in _ENDINGS:
        raise InputError(f"wanted a file that ends in {' or '.join(_ENDINGS)}, got {output}")
    files = files_of(arguments.files)
    writable(output, sources=tuple(files))
    settings = [of_core(arguments.preset)]
    settings += [of_board(board_of(name)) for name in dict.fromkeys(arguments.board)]
    if arguments.vela:
        require_vela()
    try:
        import_module("ai_edge_litert.interpreter")
    except ImportError:
        raise Missing(f"networks: LiteRT is not installed: {install_command('litert')}") from None
    vela = cycles_of if arguments.vela else None
    function = partial(network, settings=settings, **numbers, vela=vela)
    key = repr((settings, numbers, arguments.vela)).encode() + b"".join(map(read_file, files))
    shards = spread(function, files, workers_of(arguments), key=key)
    networks = list(tqdm(shards, total=len(files), unit="file", delay=1, disable=None))
    if output and output.suffix == ".json":
        write_atomically({output: json_bytes(page.as_dict(networks, settings, **numbers))})
    else:
        text = page.as_markdown(networks, settings, **numbers)
        if output:
            old = read_file(output).decode() if output.exists() else ""
            write_atomically({output: page.into_page(text, old).encode()})
        else:
            print(text, end="")
    wrong = [network.file for network in networks if network.different]
    if wrong:
        raise Failure(f"networks: output bytes differ from LiteRT: {', '.join(wrong)}")
