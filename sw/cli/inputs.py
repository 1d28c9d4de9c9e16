"""Inputs and outputs of a model on the command line: files, given to the model's names."""

import argparse
import io
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from celosia.sw.cli.arguments import pixel_range
from celosia.sw.files import MOST_BYTES, read_file
from celosia.sw.images import is_image, pictures_of, read_image
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.names import Names
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import OWN_RANGE, InputError, Pixels, clipped, names_of, quantized

#: Share of clamped values above which a note is printed.
_DOUBTFUL = 0.1


class InputData(NamedTuple):
    """Contents of an input before it is converted: an array, or pictures."""

    origin: str  #: File or folder, for messages.
    contents: np.ndarray | list[Path]  #: The samples.

    def first(self, count: int | None) -> "InputData":
        """Return the first samples; all of them with None."""
        return self._replace(contents=self.contents[:count])


def add_conversions(parser: argparse.ArgumentParser) -> None:
    """Add the options for the conversion of inputs."""
    parser.add_argument(
        "--pixels",
        type=_pixels,
        nargs="?",
        const=OWN_RANGE,
        metavar="LOW:HIGH",
        help="take uint8 as pixels: 0 to 255 stand for LOW to HIGH, or for the input's own range",
    )
    parser.add_argument(
        "--flat",
        action="store_true",
        help="take rows of numbers in place of images, or the reverse",
    )
    parser.add_argument(
        "--resize", action="store_true", help="scale pictures to the size that the model takes"
    )


def _pixels(text: str) -> Pixels:
    return text if text == OWN_RANGE else pixel_range(text)


def ends_of(source: Graph | Program) -> tuple[Names, Names]:
    """Return the names of inputs and outputs."""
    if isinstance(source, Program):
        return names_of(source.inputs), names_of(source.outputs)
    inputs, outputs = (
        Names(names, [source.tensors[n].name for n in side])
        for names, side in zip(source.names, (source.inputs, source.outputs), strict=True)
    )
    return inputs, outputs


def gather(option: str, texts: Sequence[str], names: Names) -> dict[str, InputData]:
    """Return the contents of each input.

    - ``option``: the option, for messages.
    - ``texts``: its values: ``NAME=FILE``, one ``FILE`` for a single input, or one ``.npz`` for
      all. Files are arrays (``.npy``), pictures, or folders of pictures.

    Raises InputError if a name is unknown, given twice, or without a file; or a file cannot be
    read.
    """
    files = targets(option, texts, names, are_read=True)
    if isinstance(files, Path):
        return _with_samples(_unpacked(files, names))
    pairs = zip(names, names.shown, strict=True)
    missing = [shown for name, shown in pairs if name not in files]
    if missing:
        listing = _listed(names.shown)
        raise InputError(f"{option}: wanted {listing}, got none for {_listed(missing)}")
    return _with_samples({name: _input_data(files[name]) for name in names})


def _with_samples(samples: dict[str, InputData]) -> dict[str, InputData]:
    """Return the contents of inputs; refuse those without a sample."""
    for origin, contents in samples.values():
        if isinstance(contents, np.ndarray) and contents.shape[:1] == (0,):
            raise InputError(f"{origin}: wanted one or more samples, got none")
    return samples


def sources_of(texts: Sequence[str], names: Names) -> list[Path]:
    """Return the files of inputs, which no output may overwrite."""
    pairs = (_split(text, names) for text in texts)
    return [Path(t) if f is None else f[1] for t, f in zip(texts, pairs, strict=True)]


def targets(
    option: str, texts: Sequence[str], names: Names, *, are_read: bool = False
) -> dict[str, Path] | Path:
    """Return the file of each name, or the one ``.npz`` file for all.

    ``are_read``: the files should be there.

    Raises InputError if a name is unknown or given twice, or several have one file that is no
    ``.npz``.
    """
    if len(texts) == 1 and _split(texts[0], names) is None:
        path = Path(texts[0])
        if path.suffix == ".npz":
            return path
        if len(names) == 1 and not _names_something(texts[0], are_read):
            return {names[0]: path}
    files: dict[str, Path] = {}
    for text in texts:
        pair = _split(text, names)
        if pair is None:
            requirement = f"NAME=FILE with NAME of {_listed(names.shown)}"
            more = ", or one .npz" if len(names) > 1 else ""
            raise InputError(f"{option} {text}: wanted {requirement}{more}")
        name, path = pair
        if name in files:
            shown = names.shown[names.index(name)]
            raise InputError(f"{option} {text}: {shown!r} is given twice")
        files[name] = path
    return files


def require_arrays(files: Mapping[str, Path] | Path) -> None:
    """Refuse files of outputs whose names have another ending than that of their contents."""
    for path in () if isinstance(files, Path) else files.values():
        if path.suffix.lower() != ".npy":
            raise InputError(f"{path}: wanted a name with .npy, or one .npz for all outputs")


def _names_something(text: str, is_read: bool) -> bool:
    """Return whether a text without a known name was meant to have one."""
    path = Path(text)
    has_name = is_read and "=" in path.name
    return "=" in text and not path.exists() and (has_name or not path.parent.is_dir())


def _split(text: str, names: Names) -> tuple[str, Path] | None:
    """Return name and file of a text that begins with one of the keys of ``names``."""
    for index in (n for n, c in enumerate(text) if c == "="):
        if text[:index] in names.keys:
            return names.keys[text[:index]], Path(text[index + 1 :])
    return None


def _listed(names: Sequence[str], limit: int = 6) -> str:
    shown = ", ".join(map(repr, names[:limit]))
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _input_data(path: Path) -> InputData:
    if path.is_dir():
        return InputData(str(path), pictures_of(path))
    return InputData(str(path), [path] if is_image(path) else read_array(path))


def read_array(path: Path) -> np.ndarray:
    """Return the array of an ``.npy`` file.

    Raises InputError if there is none, or it is damaged, or holds Python objects.
    """
    return _array(read_file(path), str(path))


def read_labels(
    path: Path, count: int, option: str = "--labels", *, targets: bool = False
) -> np.ndarray:
    """Return the labels of samples; ``option``: that names the file.

    With ``targets`` what is no classes is float64, a row for each sample.

    Raises InputError if they are neither whole numbers, one for each sample, nor one-hot rows, nor
    finite targets if these are wanted.
    """
    array = read_array(path)
    got = f"{array.dtype} of shape {list(array.shape)}"
    if array.dtype.kind in "iufb" and array.ndim == 2 and array.shape[1] > 1:
        ones = (array == 1).sum(axis=1)
        if ((array == 0).sum(axis=1) + ones == array.shape[1]).all() and (ones == 1).all():
            array = array.argmax(axis=1)
    is_whole = array.dtype.kind in "iu"
    if array.dtype.kind == "f":
        is_whole = bool((np.abs(array) < 1 << 31).all() and (array == np.rint(array)).all())
    if not is_whole or array.shape not in ((count,), (count, 1)):
        if targets and array.dtype.kind in "iufb" and array.ndim and len(array) == count:
            if np.isfinite(array).all():
                return array.reshape(count, -1).astype(np.float64)
            got = "NaN or infinity"
        requirement = f"wanted whole numbers of shape [{count}], or one-hot rows"
        if targets:
            requirement += f", or finite targets of shape [{count}, ...]"
        raise InputError(f"{option}: {path}: {requirement}, got {got}")
    return array.reshape(-1).astype(np.int64)


def _array(content: bytes, name: str) -> np.ndarray:
    if not content.startswith(b"\x93NUMPY"):
        raise InputError(f"{name}: not an .npy file")
    # A damaged header ends in exceptions of many kinds, out of NumPy and Python's own parser.
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:
        reason = "Python objects" if "pickle" in str(error) else "truncated or damaged .npy file"
        raise InputError(f"{name}: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name}: not an .npy file")
    return array


def _unpacked(path: Path, names: Names) -> dict[str, InputData]:
    """Return the arrays of an ``.npz`` file, under the model's names."""
    content = read_file(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            if sum(one.file_size for one in members) > MOST_BYTES:
                raise InputError(f"{path}: wanted at most {MOST_BYTES >> 20} MiB of arrays")
            contents = {one.filename.removesuffix(".npy"): archive.read(one) for one in members}
    except InputError:
        raise
    except Exception:
        raise InputError(f"{path}: not an .npz file, or a damaged one") from None
    if len(names) == len(contents) == 1:
        contents = {names[0]: next(iter(contents.values()))}
    arrays = {
        names.keys.get(key, key): _array(value, f"{path}: {key}") for key, value in contents.items()
    }
    if sorted(arrays) != sorted(names) or len(arrays) != len(contents):
        listing = _listed(names.shown)
        raise InputError(f"{path}: wanted arrays {listing}, got {_listed(sorted(contents))}")
    return {name: InputData(str(path), arrays[name]) for name in names}


def count_of(samples: Mapping[str, InputData]) -> int:
    """Return the number of samples of the first input, at least 1."""
    first = next(iter(samples.values())).contents
    return max(1, len(first)) if isinstance(first, list) or first.ndim else 1


def prepare(
    samples: Mapping[str, InputData], ports: Sequence[Port], arguments: argparse.Namespace
) -> list[np.ndarray]:
    """Return inputs as the ports take them, converted as the arguments request.

    Raises InputError if one has another layout or type, or is a picture of another size, or if an
    option of pictures or pixels has no effect.
    """
    kinds = [one.contents for one in samples.values()]
    if arguments.resize and not any(isinstance(contents, list) for contents in kinds):
        raise InputError("--resize: wanted pictures, got none")
    if arguments.pixels and not any(map(_has_pixels, kinds)):
        raise InputError("--pixels: wanted pictures or uint8, got neither")
    arrays = []
    for (origin, contents), port in zip(samples.values(), ports, strict=True):
        pixels = arguments.pixels
        if isinstance(contents, list):
            read = [read_image(path, port.shape, resize=arguments.resize) for path in contents]
            _require_one_size(contents, read)
            contents, pixels = np.stack(read), pixels or OWN_RANGE
        try:
            arrays.append(quantized(contents, port, flat=arguments.flat, pixels=pixels))
        except InputError as error:
            hint = f" (add {error.hint})" if error.hint else ""
            raise InputError(f"{origin}: {error}{hint}") from None
        if contents.dtype.kind == "f" and port.dtype != "float32":
            _report_clipping(origin, contents, port)
    return arrays


def _has_pixels(contents: np.ndarray | list[Path]) -> bool:
    return isinstance(contents, list) or contents.dtype == np.uint8


def _report_clipping(origin: str, contents: np.ndarray, port: Port) -> None:
    """Print a note where so many numbers are out of range that their unit is in doubt."""
    share, low, high = clipped(contents, port)
    if share > _DOUBTFUL:
        values = f"{share:.0%} of the values are outside the input's range"
        text = f"{origin}: {values} {low:.4g} to {high:.4g}, and are clamped"
        print(f"celosia: note: {text}", file=sys.stderr)


def _require_one_size(paths: Sequence[Path], read: Sequence[np.ndarray]) -> None:
    for path, pixels in zip(paths, read, strict=True):
        if pixels.shape != read[0].shape:
            size, got = (f"{array.shape[1]}x{array.shape[0]}" for array in (read[0], pixels))
            raise InputError(f"{path}: wanted {size} pixels as the first, got {got} (add --resize)")


def written(
    files: Mapping[str, Path] | Path, names: Sequence[str], arrays: Sequence[np.ndarray]
) -> dict[Path, bytes]:
    """Return the contents of the files of outputs."""
    outputs = dict(zip(names, arrays, strict=True))
    if isinstance(files, Path):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in outputs.items():
                archive.writestr(f"{name}.npy", npy(array))
        return {files: file.getvalue()}
    return {path: npy(outputs[name]) for name, path in files.items()}


def npy(array: np.ndarray) -> bytes:
    """Return the contents of an ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
