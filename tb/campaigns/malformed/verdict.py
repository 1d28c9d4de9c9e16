"""Verdict on a file: runs it, and LiteRT for comparison, in sandboxes."""

import atexit
import time
from functools import cache
from typing import NamedTuple

from malformed.reference import differs
from malformed.sandbox import Sandbox
from malformed.trial import Outcome, is_program

#: Limits of a file.
SECONDS = 60.0
MEMORY_BYTES = 2 << 30

#: Failures of any file, and of models: the compiler made the program that is refused.
_WRONG = ("traceback", "damage", "message")
_REFUSED = ("ProgramError", "DeviceError", "InputError")


class Problem(NamedTuple):
    """Failure; ``kind`` is one word for failures of one kind."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Verdict(NamedTuple):
    """Verdict on a file.

    ``end``: end in a few words, shared by many files; ``problem``: its problem; ``text``: message
    of a clear error; ``seconds``, ``peak``: seconds taken, and peak memory of the process so far in
    bytes.
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
    """Run a file of either kind, and return the verdict."""
    start = time.monotonic()
    result = _sandbox("trial:attempt")(content)
    seconds = time.monotonic() - start
    if result.end == "hang":
        return Verdict("hang", Problem("hang", f"no end within {SECONDS:g} s"), "", seconds)
    if result.end == "died":
        why = f"the process ended with code {result.value}"
        return Verdict("crash", Problem("crash", why), "", seconds)
    outcome: Outcome = result.value
    end, problem = outcome.end, None
    if end in _WRONG or (end in _REFUSED and not is_program(content)):
        problem = Problem(end, outcome.text)
    elif outcome.peak > MEMORY_BYTES:
        problem = Problem("memory", f"{outcome.peak >> 20} MiB")
    elif end == "answer" and not is_program(content):
        end, problem = _compared(content, outcome)
    return Verdict(end, problem, outcome.text, seconds, outcome.peak)


def _compared(content: bytes, outcome: Outcome) -> tuple[str, Problem | None]:
    """Compare the outputs of a model with LiteRT's, if it accepts the file."""
    theirs = _sandbox("reference:outputs")((content, outcome.inputs))
    if theirs.end != "done":
        return f"answer, LiteRT: {theirs.end}", None
    if isinstance(theirs.value, str):
        return "answer, LiteRT refuses", None
    wrong = differs(outcome.outputs, theirs.value)
    return ("bytes", Problem("bytes", wrong)) if wrong else ("answer as LiteRT", None)
