"""Components that benches simulate, by name, built from a configuration."""

from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.core import Core
from celosia.hw.sequencer.sequencer import Sequencer
from celosia.hw.top import Top


def make(name: str, config: Config) -> Any:
    """Return the component of that name with the sizes of a configuration."""
    return {
        "core": lambda: Top(Core(config=config)),
        "sequencer": lambda: Sequencer(config=config),
    }[name]()
