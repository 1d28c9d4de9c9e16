"""``celosia serve``: a page for drawings, which the core classifies."""

import argparse

from celosia.hw.environment.extras import install_command
from celosia.sw.cli.arguments import Commands, add_device, add_machine, seeds
from celosia.sw.cli.inputs import pixel_range
from celosia.sw.cli.messages import Missing

_LAST_PORT = 65535


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("serve", "draw digits on a page, and see how the core classifies them", run)
    made.add_argument(
        "model",
        nargs="?",
        default="mnist_a",
        metavar="MODEL",
        help="a shipped model, or a model file with an input of 28x28x1 (mnist_a)",
    )
    add_device(made, "machine")
    made.add_argument(
        "--port", type=_port, default=8000, metavar="N", help="0 for any that is free (8000)"
    )
    made.add_argument(
        "--pixels",
        type=pixel_range,
        default=(0.0, 1.0),
        metavar="LOW:HIGH",
        help="numbers that black and white stand for in the model (0:1)",
    )
    add_machine(made)


def _port(text: str) -> int:
    number = seeds(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"wanted 0 to {_LAST_PORT}, got {number}")
    return number


def run(arguments: argparse.Namespace) -> None:
    """Serve the page until interrupted."""
    try:
        from celosia.sw.serve.app import open_server
    except ImportError:
        hint = install_command("serve")
        raise Missing(f"serve: Flask is not installed: {hint}") from None
    from celosia.sw.serve.classifier import Classifier

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
