"""Functions of shards for tests; workers import them by name."""

import os
import signal
import time
from pathlib import Path

from tqdm import tqdm

from celosia.sw.runtime.arrays import InputError


class Odd(Exception):
    """An exception that cannot be sent: it needs two arguments."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


class Square:
    """Squares a number, and notes each call in a folder.

    - ``folder``: takes a file for each call and, with ``close``, ``closed``.
    - ``trouble``: event in the first call with the number 3: ``kill`` ends the process,
      ``interrupt`` raises KeyboardInterrupt; ``kills`` ends it in every call.
    """

    def __init__(self, folder: Path, trouble: str = "") -> None:
        self.folder = folder
        self.trouble = trouble

    def __call__(self, number: int) -> int:
        first = not list(self.folder.glob(f"{number}-*"))
        (self.folder / f"{number}-{time.monotonic_ns()}").touch()
        if number == 3:
            if self.trouble == "kills" or (self.trouble == "kill" and first):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "interrupt" and first:
                raise KeyboardInterrupt
        return number * number

    @property
    def calls(self) -> list[int]:
        """Numbers of all calls, sorted."""
        return sorted(int(path.name.partition("-")[0]) for path in self.folder.glob("*-*"))

    def close(self) -> None:
        """Note that nothing more comes."""
        (self.folder / "closed").touch()


def refuse(number: int) -> int:
    """Raise InputError for 3, Odd for 4."""
    if number == 3:
        raise InputError("x: wanted another number than 3")
    if number == 4:
        raise Odd("this", "that")
    return number


def late(number: int) -> int:
    """Return the number, the lower the later."""
    time.sleep(max(0.0, 0.05 * (4 - number)))
    return number


def forever(number: int) -> int:
    """Wait, with a progress bar that is not shown."""
    tqdm(disable=True)
    time.sleep(600)
    return number
