"""``celosia coverage``: measure which lines and bits of the core random programs meet."""

from celosia.sw.cli.arguments import Commands, seeds, whole
from celosia.sw.coverage import command as coverage

__all__ = ["add_parsers"]


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command(
        "coverage",
        "measure which lines and bits of the core random programs meet",
        coverage.run_coverage,
    )
    coverage.add_arguments(made, whole, seeds)
