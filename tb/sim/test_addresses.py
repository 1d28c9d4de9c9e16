from functools import partial

import numpy as np
import pytest

from celosia.sim.check.addresses import Pattern


def slow(p: Pattern) -> np.ndarray:
    """Addresses one after the other."""
    found = [p.base]
    for count, stride in p.loops:
        found = [a + n * stride for a in found for n in range(count)]
    row = [k + k // p.segment * p.jump for k in range(p.elements)]
    return np.array([a + k for a in found for k in row])


def random_pattern(rng: np.random.Generator) -> Pattern:
    loops = [(int(rng.integers(1, 5)), int(rng.integers(30))) for _ in range(rng.integers(4))]
    elements, run, jump, base = (int(n) for n in rng.integers((1, 1, 0, 0), (20, 12, 9, 50)))
    return Pattern(base, loops, elements, run, jump)


def test_everything_follows_from_the_addresses(rng: np.random.Generator):
    apart = 0
    for _ in range(300):
        p = random_pattern(rng)
        want = slow(p)
        np.testing.assert_array_equal(p.addresses().ravel(), want)
        assert (p.base, p.last, p.size) == (want.min(), want.max(), want.size)
        memory = rng.integers(0, 1000, p.last + 1)
        read, write = p.reader(memory, np.int32), p.writer(memory)
        np.testing.assert_array_equal(p.gather(memory).ravel(), memory[want])
        values = rng.integers(0, 1000, (*p.counts, p.elements))
        expected = memory.copy()
        for address, value in zip(want, values.ravel(), strict=True):
            expected[address] = value
        for scatter in (partial(p.scatter, memory), write):
            memory[:] = -1
            scatter(values)
            np.testing.assert_array_equal(memory[want], expected[want])
            assert (memory >= 0).sum() == np.unique(want).size
            found = read()
            assert (found.dtype, found.shape) == (np.int32, values.shape)
            np.testing.assert_array_equal(found.ravel(), memory[want])
            assert not np.shares_memory(found, memory)
        touched = np.zeros(p.last + 1, np.bool_)
        p.mark(touched, True)
        np.testing.assert_array_equal(np.flatnonzero(touched), np.unique(want))
        assert p.all(touched)
        touched[rng.choice(want)] = False
        assert not p.all(touched)
        apart += p.apart
        assert not p.apart or np.unique(want).size == want.size
    assert apart > 50


def test_bitmap_of_any_range(rng: np.random.Generator):
    for _ in range(100):
        p = random_pattern(rng)
        low = int(rng.integers(0, 200))
        high = low + int(rng.integers(0, 200))
        want = np.isin(np.arange(low, high + 1), slow(p))
        np.testing.assert_array_equal(p.bitmap(low, high), want)


@pytest.mark.parametrize("strides", [(0,), (3, 0), (4, 4)])
def test_repetition_is_not_apart(strides: tuple[int, ...]):
    assert not Pattern(0, [(2, stride) for stride in strides], 3).apart


def test_loops_of_stride_zero_take_no_time():
    p = Pattern(3, [(1 << 40, 0), (2, 5)], 2)
    memory = np.zeros(10, np.uint8)
    p.mark(memory, 1)
    assert np.flatnonzero(memory).tolist() == [3, 4, 8, 9]
