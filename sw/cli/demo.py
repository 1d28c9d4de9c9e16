"""``celosia demo``: handwritten digits on the simulated core."""

import argparse
from pathlib import Path

from celosia.sw.cli.arguments import Commands, add_cores, add_machine, add_output, whole
from celosia.sw.demo import demo
from celosia.sw.files import writable


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("demo", "classify handwritten digits on the simulated core", run)
    add_output(made, "picture to write (celosia_demo.png)", default=Path("celosia_demo.png"))
    made.add_argument("--images", type=whole, default=256, metavar="N", help="digits (256)")
    made.add_argument("--batch", type=whole, default=64, metavar="N", help="digits of one run")
    add_cores(made)
    add_machine(made)


def run(arguments: argparse.Namespace) -> None:
    """Classify handwritten digits, and draw the results."""
    writable(arguments.output)
    demo(
        arguments.output,
        config=arguments.preset,
        images=arguments.images,
        batch=arguments.batch,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
        cores=arguments.cores,
        ports=arguments.ports,
    )
