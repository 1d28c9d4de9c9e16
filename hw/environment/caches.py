"""Folders of caches: those that this user alone may write, and another where the home cannot be."""

import functools
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_own(path: Path) -> bool:
    """Return whether a file exists that no other user but root owns or may write."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid in (0, os.getuid()) and not status.st_mode & _OTHERS


def own_folder(path: Path) -> Path:
    """Return a folder of a cache, made if there is none, that no other user may write.

    Raises OSError, naming the folder and the variable that moves it, if another user owns it or it
    cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not is_own(path):
            # A folder of this user that a mask of the shell opened to a group.
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
        if not is_own(path):
            raise PermissionError
    except PermissionError:
        reason = "belongs to another user" if path.is_dir() else "cannot be made"
        raise PermissionError(f"{path}: {reason}; {_ADVICE}") from None
    except OSError as error:
        raise OSError(f"{path}: cannot be made ({error.strerror}); {_ADVICE}") from None
    return path


_ADVICE = "CELOSIA_CACHE names another folder"


@functools.cache
def settle_caches() -> None:
    """Move the caches of all tools where the user's own cannot be written, with a line about it.

    The tools of Amaranth and YoWASP keep compiled programs there. ``CELOSIA_CACHE`` is taken for
    them, else a temporary folder.
    """
    home = Path(os.path.expanduser("~"))
    base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    if _is_writable(base):
        return
    named = os.environ.get("CELOSIA_CACHE")
    if named and _is_writable(Path(named).absolute()):
        os.environ["XDG_CACHE_HOME"] = str(Path(named).absolute())
        return
    folder = Path(tempfile.gettempdir()) / f"celosia-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or not is_own(folder):
        folder = Path(tempfile.mkdtemp(prefix="celosia-"))
    os.environ["XDG_CACHE_HOME"] = str(folder)
    text = f"{base}: cannot be written; caches are in {folder} ({_ADVICE})"
    print(f"celosia: note: {text}", file=sys.stderr, flush=True)


def _is_writable(folder: Path) -> bool:
    """Return whether a file can be made in a folder, which is made, too."""
    # Permission bits do not tell of mounts that are read-only, and not for root.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
