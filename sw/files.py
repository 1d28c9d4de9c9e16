"""Files read up to a size, and written as a whole or not at all."""

import io
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

#: A larger file is no model, no program and no array that is read.
MOST_BYTES = 1 << 31

#: Bytes read at once.
_CHUNK = 1 << 24


class FileError(ValueError):
    """A file cannot be read or written; the message is one line."""


def read_file(path: str | Path, failure: type[ValueError] = FileError) -> bytes:
    """Return the contents of a file or a pipe.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    failure : type
        Class of the error.

    Returns
    -------
    bytes
        At most ``MOST_BYTES``.

    Raises
    ------
    failure
        If there is no such file, it cannot be read, or it is larger.
    """
    too_large = failure(f"{path}: wanted at most {MOST_BYTES >> 20} MiB, the file is larger")
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISCHR(status.st_mode):
                raise failure(f"{path}: wanted a file, got a device")
            if status.st_size > MOST_BYTES:
                raise too_large
            content = _up_to(file, MOST_BYTES + 1)
    except FileNotFoundError:
        raise failure(f"{path}: no such file") from None
    except OSError as error:
        raise failure(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > MOST_BYTES:
        raise too_large
    return content


def _up_to(file: BinaryIO, limit: int) -> bytes:
    """Return at most ``limit`` bytes; memory grows with the bytes read."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := file.read(min(limit, _CHUNK))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def writable(*paths: Path | None, sources: tuple[Path, ...] = ()) -> None:
    """Refuse outputs that could not be written, before any long work.

    Parameters
    ----------
    *paths : pathlib.Path or None
        Files to write; None for one that is not wanted.
    sources : tuple of pathlib.Path
        Inputs, which no output may overwrite.

    Raises
    ------
    FileError
        If a file is a directory or an input, is named twice, or cannot be written.
    """
    taken = [path.resolve() for path in sources]
    for path in paths:
        if path is None:
            continue
        if str(path) == "-":
            raise FileError("-: wanted the name of a file, because outputs are files")
        if path.is_dir():
            raise FileError(f"{path}: wanted a file, got a directory")
        if not path.parent.is_dir():
            raise FileError(f"{path}: no such directory as {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise FileError(f"{path}: cannot be written")
        if path.resolve() in taken and (path.is_file() or not path.exists()):
            raise FileError(f"{path}: named twice, or an input")
        taken.append(path.resolve())


def directory_of(path: Path) -> Path:
    """Return a folder to write into, made if there is none.

    Raises
    ------
    FileError
        If it is a file, or cannot be made or written.
    """
    if path.exists() and not path.is_dir():
        raise FileError(f"{path}: wanted a directory, got a file")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"wanted a directory to write into ({error.strerror})"
        raise FileError(f"{path}: {reason}") from None
    if not os.access(path, os.W_OK):
        raise FileError(f"{path}: wanted a directory to write into")
    return path


def json_bytes(content: Any) -> bytes:
    """Return the contents of a JSON file, indented."""
    return (json.dumps(content, indent=2) + "\n").encode()


def png_bytes(figure: Any, **options: Any) -> bytes:
    """Return the contents of a PNG file with a figure of Matplotlib."""
    file = io.BytesIO()
    figure.savefig(file, format="png", **options)
    return file.getvalue()


def write_atomically(contents: Mapping[str | Path, bytes]) -> None:
    """Write files: all of them, or nothing.

    Parameters
    ----------
    contents : mapping of path to bytes
        New contents of each file. Pipes and other special files are written to directly.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    temporaries: dict[Path, str] = {}
    name: str | Path = ""
    try:
        for name, content in contents.items():
            if Path(name).exists() and not Path(name).is_file():
                # By the name that was given: a pipe does not resolve to a path.
                Path(name).write_bytes(content)
                continue
            final = Path(name).resolve()
            handle, temporaries[final] = tempfile.mkstemp(dir=final.parent, prefix=".celosia-")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporaries[final], 0o666 & ~_umask())
        while temporaries:
            name = final = next(iter(temporaries))
            os.replace(temporaries[final], final)
            del temporaries[final]
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk gives no name.
        reason = error.strerror or error
        raise OSError(f"{name}: cannot be written ({reason})") from None
    finally:
        for temporary in temporaries.values():
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
