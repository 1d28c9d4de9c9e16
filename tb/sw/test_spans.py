"""Addresses by first fit, against all addresses tried one after the other."""

import numpy as np
import pytest

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.layout.spans import Span, begin_early, bytes_needed, first_fit

SMALL = preset("nano,unified_bytes=1024")


def tried(spans: list[Span], config: Config, alternate: bool) -> dict[tuple[int, int, int], int]:
    """Return the addresses of spans up to the first that does not fit."""
    found: dict[tuple[int, int, int], int] = {}
    for turn, span in enumerate(spans):
        free = [
            start
            for start in range(0, config.unified_bytes - span.count + 1, config.rows)
            if not any(
                start < found[other.key] + other.count
                and found[other.key] < start + span.count
                and other.birth <= span.death
                and span.birth <= other.death
                for other in spans[:turn]
            )
        ]
        if not free:
            break
        found[span.key] = free[-1 if alternate and turn % 2 else 0]
    return found


@pytest.mark.parametrize("alternate", [False, True])
def test_the_first_free_address_is_taken(alternate: bool, rng: np.random.Generator) -> None:
    full = 0
    for _ in range(100):
        spans = []
        for number in range(int(rng.integers(1, 12))):
            birth, death = sorted(int(layer) for layer in rng.integers(0, 8, 2))
            count = int(rng.integers(1, rng.choice([40, 300, 700])))
            spans.append(Span((number, -1, 0), count, birth, death))
        wanted = tried(spans, SMALL, alternate)
        full += len(wanted) < len(spans)
        found = first_fit(spans, SMALL, alternate)
        assert found == (wanted if len(wanted) == len(spans) else None)
    assert 10 < full < 90


def test_bytes_are_needed_from_birth_to_death(rng: np.random.Generator) -> None:
    for _ in range(30):
        spans = []
        for number in range(int(rng.integers(1, 8))):
            birth, death = sorted(int(layer) for layer in rng.integers(0, 6, 2))
            spans.append(Span((number, -1, 0), int(rng.integers(1, 50)), birth, death))
        wanted = [
            sum(-(-span.count // 8) * 8 for span in spans if span.birth <= layer <= span.death)
            for layer in range(7)
        ]
        assert bytes_needed(spans, 5, 8) == [*wanted]


def test_spans_begin_as_early_as_there_is_space(rng: np.random.Generator) -> None:
    for most in (0, 600, 1000, 2000):
        lasts = rng.integers(2, 8, 9).tolist()
        spans = [Span((n, -1, 0), 20 * n + 40, last - n % 3, last) for n, last in enumerate(lasts)]
        earliest = {0: -1, 3: 2, 5: 0, 8: 4}
        early = begin_early(spans, earliest, 8, most)
        before, after = (np.array(bytes_needed(some, 8, 1)) for some in (spans, early))
        assert (after[after > before] <= most).all()
        for span, begun in zip(spans, early, strict=True):
            first = max(0, earliest.get(span.key[0], span.birth))
            assert min(first, span.birth) <= begun.birth <= span.birth
            # One layer earlier there is no space.
            if begun.birth > first:
                assert after[begun.birth - 1] + span.count > most
        assert (after == before).all() == (most == 0)
