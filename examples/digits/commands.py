"""``celosia demo`` and ``celosia serve``: handwritten digits on the core."""

import argparse
from pathlib import Path

from celosia.hw.environment.extras import examples_command
from celosia.sw.cli.arguments import (
    Commands,
    add_cores,
    add_device,
    add_machine,
    add_output,
    pixel_range,
    seeds,
    whole,
)
from celosia.sw.cli.messages import Missing
from celosia.sw.files import writable

_LAST_PORT = 65535


def add_demo(command: Commands) -> None:
    """Add ``celosia demo``."""
    parser = command("demo", "classify handwritten digits on the simulated core", demo)
    add_output(parser, "picture to write (celosia_demo.png)", default=Path("celosia_demo.png"))
    parser.add_argument("--images", type=whole, default=256, metavar="N", help="digits (256)")
    parser.add_argument("--batch", type=whole, default=64, metavar="N", help="digits of one run")
    add_cores(parser)
    add_machine(parser)


def demo(arguments: argparse.Namespace) -> None:
    """Classify handwritten digits, and draw the results."""
    from celosia_examples.digits import demo

    writable(arguments.output)
    demo.demo(
        arguments.output,
        config=arguments.preset,
        images=arguments.images,
        batch=arguments.batch,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
        cores=arguments.cores,
        ports=arguments.ports,
    )


def add_serve(command: Commands) -> None:
    """Add ``celosia serve``."""
    text = "draw digits on a page, and see how the core classifies them"
    parser = command("serve", text, serve)
    parser.add_argument(
        "model",
        nargs="?",
        default="mnist_cnn_5x5",
        metavar="MODEL",
        help="a shipped model, or a model file with an input of 28x28x1 (mnist_cnn_5x5)",
    )
    add_device(parser, "machine")
    parser.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="0 for any that is free (8000)"
    )
    parser.add_argument(
        "--pixels",
        type=pixel_range,
        default=(0.0, 1.0),
        metavar="LOW:HIGH",
        help="numbers that black and white stand for in the model (0:1)",
    )
    add_machine(parser)


def _port(text: str) -> int:
    number = seeds(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"wanted 0 to {_LAST_PORT}, got {number}")
    return number


def serve(arguments: argparse.Namespace) -> None:
    """Serve the page until interrupted."""
    try:
        from celosia_examples.digits.app import open_server
    except ImportError as error:
        raise Missing(f"serve: {error.name} is not installed: {examples_command()}") from None
    from celosia_examples.digits.classifier import Classifier

    classifier = Classifier(
        arguments.model,
        arguments.preset,
        arguments.device,
        pixels=arguments.pixels,
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
    )
    try:
        server = open_server(classifier, arguments.port)
        print(f"http://{server.host}:{server.port}/  (Ctrl+C ends it)", flush=True)
        server.serve_forever()
    finally:
        classifier.close()
