"""Models of MLPerf Tiny and published results, read from ``published.toml``."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Model(NamedTuple):
    """A model of the benchmark."""

    #: Short name, and the task in words.
    name: str
    task: str
    #: Name of the file, and its folder in ``REPOSITORY``.
    file: str
    folder: str
    sha256: str  #: Digest of the published file.


class Peer(NamedTuple):
    """Results of another system, by name of the model."""

    #: The system, a remark, and the place where the figures are published.
    name: str
    note: str
    source: str
    #: Greatest clock of the part that computes the network; None where there is none.
    clock_mhz: float | None
    throughput: Mapping[str, float]  #: Median inferences per second; empty for an estimate.
    #: Cycles of one inference: estimated, else the clock divided by the throughput.
    cycles: Mapping[str, float]


def _peer(row: Mapping[str, Any]) -> Peer:
    clock, throughput = row.get("clock_mhz"), row.get("throughput", {})
    cycles = {name: 1000 * count for name, count in row.get("kilocycles", {}).items()}
    if clock:
        cycles = {name: clock * 1e6 / pace for name, pace in throughput.items()}
    return Peer(row["name"], row["note"], row["source"], clock, throughput, cycles)


_TABLE = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))

#: Web address of the models.
REPOSITORY: str = _TABLE["repository"]

#: The models, in the order of the tables.
MODELS = tuple(Model(**row) for row in _TABLE["models"])

#: The systems and the estimates.
PEERS = tuple(map(_peer, (*_TABLE["systems"], *_TABLE["estimates"])))
