"""Sizes that the blocks of a unit share, taken from the configuration of a core."""

from dataclasses import fields
from typing import Any, Self


class Sizes:
    """Base of frozen data classes whose fields are names of ``Config``."""

    @classmethod
    def of(cls, config: Any, **others: Any) -> Self:
        """Return the sizes of a core; ``others`` are fields that the configuration does not have.

        Parameters
        ----------
        config : Config
            Sizes of the core.
        **others : Any
            Values of further fields, or instead of those of the configuration.
        """
        known: Any = cls
        names = {field.name for field in fields(known)} - set(others)
        return cls(**{name: getattr(config, name) for name in names}, **others)
