"""Drawings as pictures of 28 x 28, made as the pictures of the data sets were."""

import math

import numpy as np

from celosia import InputError

#: Rows and columns of a drawing, and of a picture.
CANVAS = 280
SIDE = 28

#: Side of the box that a digit of MNIST fills.
_BOX = 20


def normalised(drawing: np.ndarray, dataset: str = "mnist") -> np.ndarray:
    """Return a drawing as a picture of a data set.

    A digit of MNIST is scaled into a box of 20 x 20, and its centre of mass becomes the centre of
    the picture. An article of Fashion-MNIST is scaled into the whole picture, in its middle.

    - ``drawing``: uint8, two axes; 0 is background.
    - ``dataset``: ``fashion-mnist``; other names are treated as ``mnist``.

    Returns uint8, shape ``(28, 28)``. Raises InputError if nothing is drawn.
    """
    if not drawing.any():
        raise InputError("drawing: wanted a stroke, got an empty canvas")
    fashion = dataset == "fashion-mnist"
    shape = _scaled(_cropped(drawing), SIDE if fashion else _BOX)
    rows, columns = shape.shape
    centre = (rows / 2, columns / 2) if fashion else _centre_of_mass(shape)
    # As in all of MNIST, the pixel of row and column 14 has the centre of mass in it.
    top, left = (
        min(max(math.ceil(SIDE / 2 - middle), 0), SIDE - extent)
        for middle, extent in zip(centre, shape.shape, strict=True)
    )
    picture = np.zeros((SIDE, SIDE), np.uint8)
    picture[top : top + rows, left : left + columns] = shape
    return picture


def _cropped(drawing: np.ndarray) -> np.ndarray:
    """Return the rows and columns from the first to the last with ink."""
    rows, columns = (np.flatnonzero(drawing.any(axis=axis)) for axis in (1, 0))
    return drawing[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _scaled(shape: np.ndarray, side: int) -> np.ndarray:
    """Return a shape whose longer side is ``side``, antialiased."""
    from PIL import Image

    ratio = side / max(shape.shape)
    rows, columns = (max(1, round(extent * ratio)) for extent in shape.shape)
    image = Image.fromarray(np.ascontiguousarray(shape))
    return np.asarray(image.resize((columns, rows), Image.Resampling.BILINEAR))


def _centre_of_mass(shape: np.ndarray) -> tuple[float, float]:
    """Return row and column of the centre of mass, in pixels from the upper left corner."""
    mass = shape.astype(np.float64)
    down, across = (
        float(mass.sum(axis=1 - axis) @ (np.arange(mass.shape[axis]) + 0.5) / mass.sum())
        for axis in (0, 1)
    )
    return down, across
