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
    about: str
    source: str
    #: Greatest clock of the part that computes the network; None where there is none.
    clock_mhz: float | None
    throughput: Mapping[str, float]  #: Median inferences per second; empty for an estimate.
    #: Cycles of one inference: estimated, else the clock divided by the throughput.
    cycles: Mapping[str, float]


def _measured(row: Mapping[str, Any]) -> Peer:
    clock = row.get("clock_mhz")
    cycles = {k: clock * 1e6 / pace for k, pace in row["throughput"].items()} if clock else {}
    return Peer(row["name"], row["about"], row["source"], clock, row["throughput"], cycles)


def _estimated(row: Mapping[str, Any]) -> Peer:
    cycles = {name: 1000 * count for name, count in row["kilocycles"].items()}
    return Peer(row["name"], row["about"], row["source"], None, {}, cycles)


_TABLE = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))

#: Web address of the models.
REPOSITORY: str = _TABLE["repository"]

#: The models, in the order of the tables.
MODELS = tuple(Model(**row) for row in _TABLE["models"])

#: The systems and the estimates.
PEERS = (*map(_measured, _TABLE["systems"]), *map(_estimated, _TABLE["estimates"]))
