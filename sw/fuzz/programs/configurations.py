"""Cores of random programs: a fixed table, and random ones."""

import random
from dataclasses import replace

from celosia.hw.arch.config import COUNTED, LINKS, SKIPS, Config
from celosia.sw.fuzz import stage

_FIELDS = (
    "rows",
    "columns",
    "unified_bytes",
    "weight_tiles",
    "accumulator_depth",
    "lanes",
    "weight_rows",
    "bus_bytes",
    "parameter_channels",
    "tables",
    "queue_depth",
    "burst_beats",
    "outstanding",
)

_TABLE: dict[str, tuple[int, ...]] = {
    "least": (4, 4, 128, 2, 4, 1, 1, 4, 8, 1, 3, 1, 2),
    "square4": (4, 4, 256, 12, 16, 1, 2, 4, 32, 1, 4, 8, 4),
    "odd": (4, 7, 512, 9, 8, 1, 4, 4, 16, 5, 6, 32, 7),
    "broad": (4, 20, 1024, 6, 16, 2, 2, 4, 40, 2, 7, 4, 6),
    "column": (8, 1, 256, 5, 32, 1, 2, 8, 16, 1, 3, 8, 2),
    "tall": (8, 2, 256, 6, 16, 2, 8, 4, 24, 3, 3, 2, 5),
    "square8": (8, 8, 1024, 16, 16, 2, 8, 8, 64, 4, 8, 16, 32),
    "wide": (8, 12, 512, 8, 16, 4, 1, 8, 16, 2, 3, 16, 32),
    "narrow": (16, 4, 512, 8, 8, 4, 16, 16, 32, 3, 5, 4, 3),
    "square16": (16, 16, 1024, 12, 16, 8, 4, 16, 64, 4, 4, 16, 32),
}

#: Cores with MOVE_WEIGHTS.
_MOVING = {"square4", "odd", "broad", "tall", "square8", "narrow", "square16"}

#: Cores with SOFTMAX.
_SOFTMAX = {"square4", "odd", "tall", "square8", "narrow", "square16"}
#: Cores with the modes MULTIPLY and SQUARED_DIFFERENCE.
_MULTIPLYING = {"square4", "odd", "wide", "square16"}

#: The cores by name.
CONFIGURATIONS = {
    name: Config(
        name=name,
        activation_weights=name in _MOVING,
        softmax=name in _SOFTMAX,
        elementwise_products=name in _MULTIPLYING,
        **dict(zip(_FIELDS, sizes, strict=True)),
    )
    for name, sizes in _TABLE.items()
}
CONFIGURATIONS["small"] = replace(
    CONFIGURATIONS["least"],
    name="small",
    links="register",
    skips="serial",
    counters="none",
    activation_weights=True,
)


def variant(config: Config, *, protection: str = "none", requantizer: str = "pipelined") -> Config:
    """Return a core with other memories or requantiser, without SOFTMAX if they exclude it."""
    softmax = config.softmax and (protection, requantizer) == ("none", "pipelined")
    return replace(config, protection=protection, requantizer=requantizer, softmax=softmax)


def draw(rng: random.Random) -> Config:
    """Return a core of random sizes that ``stage`` supports."""
    while True:
        rows = rng.choice([4, 4, 8, 8, 16])
        columns = rng.randint(1, 24)
        lanes = rng.choice([1, 2, 4, 8, 16])
        bus_bytes = rng.choice([4, 8, 16])
        try:
            config = Config(
                name="drawn",
                rows=rows,
                columns=columns,
                unified_bytes=rows * rng.randint(8, 96),
                weight_tiles=rng.randint(2, 16),
                accumulator_depth=rng.choice([4, 8, 16, 32]),
                lanes=lanes,
                weight_rows=rng.choice([1, 2, 4, rows]),
                bus_bytes=bus_bytes,
                parameter_channels=lanes * rng.randint(4, 16),
                tables=rng.randint(1, 6),
                queue_depth=rng.randint(3, 8),
                burst_beats=rng.choice([1, 2, 8, 16, 64, 256]),
                outstanding=rng.randint(2, 32),
                links=rng.choice(LINKS),
                skips=rng.choice(SKIPS),
                counters=rng.choice(COUNTED),
                activation_weights=rng.random() < 0.5,
                softmax=rng.random() < 0.5,
                elementwise_products=rng.random() < 0.5,
            )
        except ValueError:
            continue
        if stage.unsupported(config) is None:
            return config


def configurations(names: str | None, drawn: int, seed: int) -> list[Config]:
    """Return the cores of a campaign.

    ``names``: names of ``CONFIGURATIONS``, separated by commas; all of them unless given;
    ``drawn``: number of random cores instead, 0 for none; ``seed``: seed of the random cores.
    Raises ``ValueError`` if a name is unknown.
    """
    if drawn:
        rng = random.Random(f"configurations {seed}")
        return [draw(rng) for _ in range(drawn)]
    chosen = names.split(",") if names else list(CONFIGURATIONS)
    for name in chosen:
        if name not in CONFIGURATIONS:
            names = ", ".join(CONFIGURATIONS)
            raise ValueError(f"configurations: wanted some of {names}, got {name!r}")
    return [CONFIGURATIONS[name] for name in chosen]
