"""``celosia fuzz``: run random programs on the simulated core."""

from celosia.sw import fuzz
from celosia.sw.cli.arguments import Commands, seeds, whole


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command(
        "fuzz",
        "run random programs on the simulated core",
        fuzz.run_fuzz,
    )
    fuzz.add_arguments(made, whole, seeds)
