"""Labelled samples on the command line: files with labels, and folders of pictures by class."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.sw.cli import inputs
from celosia.sw.evaluate import Labelled
from celosia.sw.images import labelled_pictures
from celosia.sw.ir.names import Names
from celosia.sw.runtime.arrays import InputError


class LabelledInputs(NamedTuple):
    """Samples, by the model's names, and their labels."""

    contents: dict[str, inputs.InputData]
    labelled: Labelled


def labelled_inputs(
    option: str,
    texts: Sequence[str],
    labels: Path | None,
    names: Names,
    *,
    limit: int | None = None,
    labels_option: str = "--labels",
    origin: str = "",
    targets: bool = False,
) -> LabelledInputs:
    """Return the samples that an option names, and their labels.

    - ``option``, ``texts``: the option and its values: see ``inputs.gather``.
    - ``labels``, ``labels_option``: file of the labels and its option; a folder with a folder of
      pictures for each class needs none.
    - ``names``: of the model's inputs. ``limit``: samples at most.
    - ``origin``: what the samples are for, in messages.
    - ``targets``: whether labels may be real numbers: see ``inputs.read_labels``.

    Raises InputError if samples or labels are missing or do not match.
    """
    folder = Path(texts[0])
    if len(texts) == len(names) == 1 and folder.is_dir() and not labels:
        return _of_folder(folder, names[0], limit, labels_option)
    if not labels:
        requirement = f"{labels_option}, or a folder with a folder for each class"
        raise InputError(f"{option}: wanted {requirement}")
    contents = inputs.gather(f"{origin}{option}", texts, names)
    count = inputs.count_of(contents)
    classes = inputs.read_labels(labels, count, labels_option, targets=targets)
    return LabelledInputs(
        {name: one.first(limit) for name, one in contents.items()},
        Labelled(name=" ".join(texts), labels=classes[:limit]),
    )


def _of_folder(folder: Path, name: str, limit: int | None, labels_option: str) -> LabelledInputs:
    """Return the pictures of a folder with a folder for each class."""
    pictures, classes = labelled_pictures(folder) or ([], ())
    if len(classes) < 2:
        requirement = f"a folder for each of 2 classes or more, or {labels_option}"
        raise InputError(f"{folder}: wanted {requirement}")
    if limit:
        # A first part with all classes in it, the same each time.
        order = np.random.default_rng(0).permutation(len(pictures))[:limit]
        pictures = [pictures[n] for n in sorted(order)]
    labels = np.array([label for _, label in pictures], np.int64)
    labelled = Labelled(name=str(folder), labels=labels, classes=classes)
    paths = [path for path, _ in pictures]
    return LabelledInputs({name: inputs.InputData(str(folder), paths)}, labelled)
