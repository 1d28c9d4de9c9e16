"""Results of the shards of a run, kept in files until it has ended."""

import hashlib
import os
import pickle
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from celosia.hw.environment.caches import is_own, own_folder

#: Seconds after which the results of a run that nobody resumed are removed.
_LIFE = 7 * 24 * 3600
_DIGEST = hashlib.sha256


class Store:
    """Results of shards in the user's cache, one file for each.

    - ``key``: all that the results depend on: function, its arguments, code, inputs.

    A result that cannot be written is not kept. One that another user owns or may write is not
    taken: to read it could run code.
    """

    def __init__(self, key: bytes) -> None:
        from celosia.sim.rtl.verilate import cache_directory

        self._all = cache_directory() / "shards"
        self._folder = self._all / _DIGEST(key).hexdigest()[:32]

    def results(self) -> dict[int, Any]:
        """Return the results that are kept, by number; a damaged file is none."""
        if not (is_own(self._all) and is_own(self._folder)):
            return {}
        contents = {int(path.name): _whole(path) for path in self._folder.glob("[0-9]*")}
        return {n: pickle.loads(content) for n, content in contents.items() if content is not None}

    def write(self, number: int, result: Any) -> None:
        """Keep a result."""
        content = pickle.dumps(result)
        part = self._folder / f".{number}-{os.getpid()}"
        with suppress(OSError):
            own_folder(self._all)
            own_folder(self._folder)
            part.write_bytes(_DIGEST(content).digest() + content)
            part.chmod(0o600)
            part.replace(self._folder / str(number))

    def remove(self) -> None:
        """Remove all results of this run, and those of others that are a week old."""
        folders: Collection[Path] = [self._folder]
        with suppress(OSError):
            limit = time.time() - _LIFE
            folders = [
                path
                for path in self._all.iterdir()
                if path == self._folder or path.stat().st_mtime < limit
            ]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _whole(path: Path) -> bytes | None:
    """Return the content of this user's file after its digest, None if they do not match."""
    if not is_own(path):
        return None
    try:
        content = path.read_bytes()
    except OSError:
        return None
    size = _DIGEST().digest_size
    return content[size:] if _DIGEST(content[size:]).digest() == content[:size] else None
