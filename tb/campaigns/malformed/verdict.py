"""Verdict on a file: runs it, and LiteRT for comparison, in sandboxes."""

import atexit
import time
from functools import cache
from typing import NamedTuple

from malformed.reference import differs
from malformed.sandbox import Sandbox
from malformed.trial import Outcome, is_program

__all__ = ["MEMORY_BYTES", "SECONDS", "Problem", "Verdict", "verdict"]

#: What a file may take.
SECONDS = 60.0
MEMORY_BYTES = 2 << 30

#: What is wrong by itself, and what a model must not end in: the compiler made what is refused.
_WRONG = ("traceback", "damage", "message")
_REFUSED = ("ProgramError", "DeviceError", "InputError")


class Problem(NamedTuple):
    """A failure: ``kind`` is one word that names failures of one sort."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Verdict(NamedTuple):
    """Verdict on a file.

    Parameters
    ----------
    end : str
        How it ended, in a few words that many files share.
    problem : Problem or None
        What is wrong with that.
    text : str
        The message of a clear error.
    seconds, peak : float, int
        What it took: time, and most memory that the process has had so far, in bytes.
    """

    end: str
    problem: Problem | None = None
    text: str = ""
    seconds: float = 0.0
    peak: int = 0


@cache
def _sandbox(function: str) -> Sandbox:
    made = Sandbox(f"malformed.{function}", seconds=SECONDS, memory_bytes=MEMORY_BYTES)
    atexit.register(made.close)
    return made


def verdict(content: bytes) -> Verdict:
    """Run a file of either kind, and say what became of it."""
    start = time.monotonic()
    answer = _sandbox("trial:attempt")(content)
    seconds = time.monotonic() - start
    if answer.end == "hang":
        return Verdict("hang", Problem("hang", f"no end within {SECONDS:g} s"), "", seconds)
    if answer.end == "died":
        why = f"the process ended with code {answer.value}"
        return Verdict("crash", Problem("crash", why), "", seconds)
    outcome: Outcome = answer.value
    end, problem = outcome.end, None
    if end in _WRONG or (end in _REFUSED and not is_program(content)):
        problem = Problem(end, outcome.text)
    elif outcome.peak > MEMORY_BYTES:
        problem = Problem("memory", f"{outcome.peak >> 20} MiB")
    elif end == "answer" and not is_program(content):
        end, problem = _compared(content, outcome)
    return Verdict(end, problem, outcome.text, seconds, outcome.peak)


def _compared(content: bytes, outcome: Outcome) -> tuple[str, Problem | None]:
    """Compare the answer of a model with LiteRT's, where that takes the file."""
    theirs = _sandbox("reference:answer")((content, outcome.inputs))
    if theirs.end != "done":
        return f"answer, LiteRT: {theirs.end}", None
    if isinstance(theirs.value, str):
        return "answer, LiteRT refuses", None
    wrong = differs(outcome.outputs, theirs.value)
    return ("bytes", Problem("bytes", wrong)) if wrong else ("answer as LiteRT", None)
