"""Pictures as arrays of pixels, in the size and the channels of a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.files import FileError

#: Endings of files that are read as pictures.
ENDINGS = (".bmp", ".jpeg", ".jpg", ".png")

#: Pillow's modes by number of channels.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
#: Pictures that have 8 bits a channel.
_BYTES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_MOST_PIXELS = 1 << 26
#: Formats that are read. Pillow starts other programs for some of the others, whatever the name.
FORMATS = ("BMP", "JPEG", "PNG")


def is_image(path: Path) -> bool:
    """Return whether the name of a file is that of a picture."""
    return path.suffix.lower() in ENDINGS


def pictures_of(folder: Path) -> list[Path]:
    """Return the pictures in a folder, by name; raises FileError if there are none."""
    pictures = sorted(path for path in folder.iterdir() if is_image(path))
    if not pictures:
        raise FileError(f"{folder}: wanted pictures ({', '.join(ENDINGS)}), found none")
    return pictures


def labelled_pictures(folder: Path) -> tuple[list[tuple[Path, int]], tuple[str, ...]] | None:
    """Return the pictures of a folder with a folder for each class, with their classes, and names.

    None if it has pictures itself, or no folder. Raises FileError if a class has no picture.
    """
    parts = sorted(folder.iterdir())
    classes = [path for path in parts if path.is_dir()]
    if not classes or any(is_image(path) for path in parts):
        return None
    pictures = [(path, number) for number, one in enumerate(classes) for path in pictures_of(one)]
    return pictures, tuple(path.name for path in classes)


def read_image(path: Path, shape: Sequence[int], *, resize: bool = False) -> np.ndarray:
    """Return a picture as pixels.

    - ``path``: the picture: 8 bits a channel. Colours are made grey, and grey coloured, where the
      model wants it; transparency is left out.
    - ``shape``: shape of a sample of the model: height and width, and channels last or first. A
      sample of another number of axes takes the picture unscaled, in grey.
    - ``resize``: scale it to the model's height and width, bilinear.

    Returns uint8, of height, width and channels in the order of ``shape``. Raises FileError if it
    is no such picture, or of another size.
    """
    shape = tuple(shape)
    first = len(shape) == 3 and shape[2] not in _MODES and shape[0] in _MODES
    rows, columns, channels = (shape[1], shape[2], shape[0]) if first else (*shape, 1, 1, 1)[:3]
    is_sized = len(shape) in (2, 3)
    if is_sized and channels not in _MODES:
        raise FileError(f"{path}: wanted an input of 1, 3 or 4 channels for it, got {list(shape)}")
    picture = _opened(path).convert(_MODES[channels if is_sized else 1])
    if is_sized and picture.size != (columns, rows):
        if not resize:
            raise FileError(
                f"{path}: wanted {columns}x{rows} pixels, got {picture.width}x{picture.height} "
                "(add --resize)"
            )
        picture = picture.resize((columns, rows), _bilinear())
    pixels = np.array(picture, np.uint8).reshape(picture.height, picture.width, -1)
    if first:
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))
    return pixels.reshape(shape) if len(shape) == 2 else pixels


def _bilinear() -> Any:
    from PIL.Image import Resampling

    return Resampling.BILINEAR


def _opened(path: Path) -> Any:
    """Return a picture, upright."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=FORMATS) as picture:
            if picture.width * picture.height > _MOST_PIXELS:
                raise FileError(f"{path}: wanted at most {_MOST_PIXELS} pixels, got {picture.size}")
            if picture.mode not in _BYTES:
                raise FileError(f"{path}: wanted 8 bits a channel, got {picture.mode}")
            return ImageOps.exif_transpose(picture)
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except FileError:
        raise
    except Exception:
        # Damaged pictures end in exceptions of many kinds.
        raise FileError(f"{path}: not a picture, or a damaged one") from None
