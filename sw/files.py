"""Files written as a whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(contents: Mapping[str | Path, bytes]) -> None:
    """Write files: all of them, or nothing.

    Parameters
    ----------
    contents : mapping of path to bytes
        What each file shall hold. What is not a regular file, a pipe for instance, is written to.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    temporaries: dict[Path, str] = {}
    try:
        for path, content in contents.items():
            if Path(path).exists() and not Path(path).is_file():
                # By the name that was given: what a pipe resolves to is no path.
                Path(path).write_bytes(content)
                continue
            final = Path(path).resolve()
            handle, temporaries[final] = tempfile.mkstemp(dir=final.parent, prefix=".celosia-")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporaries[final], 0o666 & ~_umask())
        while temporaries:
            final = next(iter(temporaries))
            os.replace(temporaries[final], final)
            del temporaries[final]
    finally:
        for temporary in temporaries.values():
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
