"""Campaigns of changed files: each is drawn from its number, so that results are reproducible."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from malformed import models, programs, seeds
from malformed.programs import summed
from malformed.trial import is_program
from malformed.verdict import Problem, verdict

#: Kinds of files: the function that draws one, and the ending of its name.
KINDS: dict[str, tuple[Callable[[random.Random], bytes], str]] = {
    "models": (models.changed, "tflite"),
    "programs": (programs.changed, "celosia"),
}

#: Most files tried while one is made small.
_BUDGET = 300


class Plan(NamedTuple):
    """Plan of a campaign: one of ``KINDS``, and the seed."""

    kind: str
    seed: int


class Found(NamedTuple):
    """File with a problem."""

    number: int
    content: bytes
    problem: Problem


class Batch(NamedTuple):
    """Results of some files; ``peak`` in bytes, ``slowest`` in seconds."""

    files: int
    ends: Counter[str]
    found: tuple[Found, ...]
    peak: int
    slowest: float


def case_of(plan: Plan, number: int) -> bytes:
    """Return the file of a number."""
    return KINDS[plan.kind][0](random.Random(f"{plan.seed} {plan.kind} {number}"))


def run_batch(plan: Plan, numbers: Sequence[int]) -> Batch:
    """Run the files of these numbers."""
    ends, found, peak, slowest = Counter[str](), [], 0, 0.0
    for number in numbers:
        content = case_of(plan, number)
        result = verdict(content)
        ends[result.end] += 1
        peak, slowest = max(peak, result.peak), max(slowest, result.seconds)
        if result.problem:
            found.append(Found(number, content, result.problem))
    return Batch(len(numbers), ends, tuple(found), peak, slowest)


def shrunk(content: bytes, kind: str) -> bytes:
    """Return a file with fewer changes that fails in the same way.

    Bytes that differ from the original file are restored, many at once, then fewer. A file whose
    length differs from its original is returned unchanged.
    """
    program = is_program(content)
    whole = seeds.programs() if program else seeds.models()
    like = [seed for seed in whole if len(seed) == len(content)]
    if not like:
        return content
    differing = {seed: [n for n, b in enumerate(content) if seed[n] != b] for seed in like}
    origin = min(like, key=lambda seed: len(differing[seed]))
    offsets, best, left = differing[origin], bytearray(content), _BUDGET
    size = max(1, len(offsets) // 2)
    while left > 0:
        start = 0
        while start < len(offsets) and left > 0:
            tried = bytearray(best)
            for offset in offsets[start : start + size]:
                tried[offset] = origin[offset]
            tried = bytearray(summed(bytes(tried[:-4]))) if program else tried
            left -= 1
            problem = verdict(bytes(tried)).problem
            if problem and problem.kind == kind:
                best = tried
                del offsets[start : start + size]
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return bytes(best)
