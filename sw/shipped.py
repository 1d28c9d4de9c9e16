"""Models of the package, by name."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Data sets of the models, by the first part of their names.
_DATASETS = {"fashion": "fashion-mnist", "mnist": "mnist"}


class Shipped(NamedTuple):
    """A model of the package."""

    path: Path  #: Its file.
    #: Data set that it was trained on, one of ``celosia.sw.data.DATASETS``; empty for a text.
    dataset: str
    about: dict[str, Any]  #: Its record: network, accuracy and settings of the training.


@cache
def shipped() -> Mapping[str, Shipped]:
    """Return the models of the package by name."""
    folder = Path(__file__).with_name("models")
    return {
        path.stem: Shipped(
            path,
            _DATASETS.get(path.stem.partition("_")[0], ""),
            json.loads(path.with_suffix(".json").read_text()),
        )
        for path in sorted(folder.glob("*.tflite"))
    }


def model_path(name: str | Path) -> Path:
    """Return the file of a model: the path itself, or the package's file of this name.

    Raises ValueError if a name without a folder and an ending is neither.
    """
    path = Path(name)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    if path.name not in shipped():
        raise ValueError(
            f"{name}: no such file, and no model of the package ({', '.join(shipped())})"
        )
    return shipped()[path.name].path
