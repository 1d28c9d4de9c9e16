"""``celosia models``: the models of the package."""

import argparse

from celosia.sw.cli.arguments import Commands
from celosia.sw.shipped import shipped


def add_parsers(command: Commands) -> None:
    """Add the command."""
    command("models", "list the models of the package, which other commands take by name", run)


def run(arguments: argparse.Namespace) -> None:
    """Print name, data set, accuracy and network of each."""
    for name, model in shipped().items():
        accuracy = f"{model.record['int8_accuracy']:.2%}"
        print(f"{name:<14} {model.dataset or 'text':<14} {accuracy:<8} {model.record['network']}")
