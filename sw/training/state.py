"""State of a training: all that a run needs to go on, and its file."""

import io
import json
import math
import zipfile
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.files import read_file, write_atomically
from celosia.sw.layers.weight_bytes import MOST_WEIGHT
from celosia.sw.runtime.arrays import InputError
from celosia.sw.shipped import ALIASES
from celosia.sw.training.calibration import Calibration

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings on which the bits of a training depend.

    ``core``: preset; ``batch``: images of a step; ``seed``: of weights, split, order and noise;
    ``limit``: images to train and validate with, all if None; ``patience``: epochs without a better
    validation after which training stops, none if None; ``dropout``: in hidden matrix products;
    ``cores``: that train at the same time; ``last``: layers that train, all if None; ``random``:
    whether first weights are random; ``model``: digest of the network; ``images``: digest of images
    and labels; ``loss``: see ``Learner``; ``augment``: changes of the images.
    """

    network: str
    dataset: str
    core: str
    batch: int
    seed: int = 0
    limit: int | None = None
    patience: int | None = None
    dropout: bool = False
    cores: int = 1
    last: int | None = None
    random: bool = False
    model: str = ""
    images: str = ""
    loss: str = "softmax"
    augment: str = ""


@dataclass(kw_only=True)
class State:
    """A training between two steps.

    ``epoch``, ``step``: the next step; ``weights``: of all layers, int32; ``best``: those of the
    best validation; ``right``, ``seen``: ``share`` of the images since the last point of the
    curve, times their number, and the number;
    ``calibration``, ``best_shifts``: shifts, and those of ``best``;
    ``curve``: epochs passed and the share of right training images since the point before;
    ``validations``: epochs passed and accuracy; ``cycles``, ``steps``: cycles counted, where the
    device counts them, and steps.
    """

    weights: list[np.ndarray]
    best: list[np.ndarray] = field(default_factory=list)
    epoch: int = 0
    step: int = 0
    right: float = 0
    seen: int = 0
    curve: list[tuple[float, float]] = field(default_factory=list)
    validations: list[tuple[float, float]] = field(default_factory=list)
    cycles: int = 0
    steps: int = 0
    best_shifts: dict[str, int] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def best_accuracy(self) -> float:
        """Best accuracy on the validation images; 0 before the first."""
        return max((accuracy for _, accuracy in self.validations), default=0.0)

    def stale(self, patience: int | None) -> bool:
        """Return True if the last ``patience`` validations brought nothing better."""
        if patience is None or len(self.validations) <= patience:
            return False
        before = max(accuracy for _, accuracy in self.validations[:-patience])
        return all(accuracy <= before for _, accuracy in self.validations[-patience:])


_COUNTS = ("epoch", "step", "seen", "cycles", "steps")
_PLAIN = (*_COUNTS, "right", "curve", "validations", "best_shifts")


def save(path: Path, state: State, settings: Settings) -> None:
    """Write a checkpoint: whole, or not at all."""
    record = {
        "format": _FORMAT,
        "settings": asdict(settings),
        "state": {name: getattr(state, name) for name in _PLAIN}
        | {"calibration": state.calibration.as_dict()},
    }
    arrays: dict[str, Any] = {f"weights{n}": array for n, array in enumerate(state.weights)}
    arrays |= {f"best{n}": array for n, array in enumerate(state.best)}
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(json.dumps(record).encode(), np.uint8), **arrays)
    write_atomically({path: file.getvalue()})


def restore(
    path: Path, settings: Settings, shapes: Sequence[tuple[int, ...]], roles: Set[str] = frozenset()
) -> State:
    """Return the state of a checkpoint.

    ``shapes``: of the weights; ``roles``: of shifts. Raises InputError if it is damaged, or of
    other settings.
    """
    content = read_file(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = json.loads(arrays.pop("about").tobytes())
        saved, plain = dict(record["settings"]), record["state"]
        if record["format"] != _FORMAT:
            raise ValueError(f"format {record['format']}")
        curves = {
            name: [(float(passed), float(share)) for passed, share in plain[name]]
            for name in ("curve", "validations")
        }
        counts = [plain[name] for name in _COUNTS]
        right = plain["right"]
        if any(not isinstance(count, int) or count < 0 for count in counts):
            raise ValueError("counts")
        if not isinstance(right, int | float) or not 0 <= right < math.inf:
            raise ValueError("right")
        calibration = Calibration.from_dict(plain.pop("calibration", {}), roles)
        if set(plain.get("best_shifts", {})) not in (set(), roles):
            raise ValueError("shifts")
        fields = plain | curves | {"calibration": calibration}
        state = State(weights=_arrays(arrays, "weights", shapes), **fields)
        state.best = _arrays(arrays, "best", shapes) if "best0" in arrays else []
    except (ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
        raise InputError(f"{path}: not a checkpoint of this network, or damaged") from None
    current = asdict(settings)
    saved["network"] = ALIASES.get(str(saved.get("network")), saved.get("network"))
    # Checkpoints of before have no digest.
    images, before = current.pop("images"), saved.pop("images", settings.images)
    for name, value in current.items():
        expected = saved.get(name, getattr(Settings, name, None))
        if expected != value:
            raise InputError(f"{path}: wanted {name} {expected}, got {value}")
    if images != before:
        raise InputError(f"{path}: wanted the images of that training, got others")
    return state


def _arrays(
    saved: dict[str, np.ndarray], name: str, shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    """Return the arrays of all layers; raises ValueError or KeyError if they do not fit."""
    arrays = [saved[f"{name}{n}"] for n in range(len(shapes))]
    for array, shape in zip(arrays, shapes, strict=True):
        if array.shape != shape or array.dtype != np.int32:
            raise ValueError(name)
        if array.min() < -MOST_WEIGHT or array.max() >= MOST_WEIGHT:
            raise ValueError(name)
    return arrays
