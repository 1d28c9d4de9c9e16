"""``celosia flip``: flip bits in the memories of the simulated core."""

from celosia.sw import flips
from celosia.sw.cli.arguments import Commands, add_preset, seeds, whole

__all__ = ["add_parsers"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("flip", "flip bits in the memories of the simulated core", flips.run_flip)
    add_preset(made)
    flips.add_arguments(made, whole, seeds)
