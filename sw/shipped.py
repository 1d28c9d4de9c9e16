"""Models of the package, by name."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Data sets of the models, by the first part of their names.
_DATASETS = {"fashion": "fashion-mnist", "mnist": "mnist"}


#: Earlier names of models, which are accepted wherever a name is.
ALIASES = {
    "fashion_b": "fashion_cnn",
    "mnist_a": "mnist_cnn_5x5",
    "mnist_c": "mnist_cnn_3x3",
    "mnist_d": "mnist_cnn_deep",
}


class Shipped(NamedTuple):
    """A model of the package."""

    path: Path  #: Its file.
    #: Data set that it was trained on, one of ``celosia.sw.data.DATASETS``; empty for a text.
    dataset: str
    record: dict[str, Any]  #: Network, accuracy and settings of the training.


class ByName(dict[str, Any]):
    """Values by the names of models; earlier names are found, too, and not listed."""

    def __missing__(self, name: str) -> Any:
        return self[ALIASES[name]]

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, ALIASES.get(str(name), name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or a default."""
        return self[name] if name in self else default


@cache
def shipped() -> Mapping[str, Shipped]:
    """Return the models of the package by name."""
    folder = Path(__file__).with_name("models")
    return ByName(
        {
            path.stem: Shipped(
                path,
                _DATASETS.get(path.stem.partition("_")[0], ""),
                json.loads(path.with_suffix(".json").read_text()),
            )
            for path in sorted(folder.glob("*.tflite"))
        }
    )


def model_path(name: str | Path) -> Path:
    """Return the file of a model.

    Parameters
    ----------
    name : str or pathlib.Path
        Path of a file, which is returned; or the name of a model of the package.

    Raises
    ------
    ValueError
        If a name without a folder and an ending is neither.
    """
    path = Path(name)
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    if path.name not in shipped():
        raise ValueError(
            f"{name}: no such file, and no model of the package ({', '.join(shipped())})"
        )
    return shipped()[path.name].path
