"""Models of MLPerf Tiny and published results, read from ``published.toml``."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["MODELS", "PEERS", "REPOSITORY", "Model", "Peer"]


class Model(NamedTuple):
    """A model of the benchmark.

    Parameters
    ----------
    name, task : str
        Short name, and the task in words.
    file, folder : str
        Name of the file, and its folder in ``REPOSITORY``.
    sha256 : str
        Digest of the published file.
    """

    name: str
    task: str
    file: str
    folder: str
    sha256: str


class Peer(NamedTuple):
    """Results of another system, by name of the model.

    Parameters
    ----------
    name, about, source : str
        The system, a remark, and the place where the figures are published.
    clock_mhz : float or None
        Greatest clock of the part that computes the network; None where there is none.
    throughput : mapping of str to float
        Median inferences per second; empty for an estimate.
    cycles : mapping of str to float
        Cycles of one inference: estimated, else the clock divided by the throughput.
    """

    name: str
    about: str
    source: str
    clock_mhz: float | None
    throughput: Mapping[str, float]
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
