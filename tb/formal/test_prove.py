"""The prover itself: proved, refuted and unknown where they should be."""

import pytest
from amaranth.hdl import Cat, Mux, Signal, signed
from prove import Spec, broken_module, prove, proved, refuted

from celosia.hw.lib import skid_buffer


def operators(x, y):
    """Return values of numbers or of signals, of 8 bits, ``y`` signed."""
    return {
        "add": x + y,
        "subtract": x - y,
        "multiply": x * y,
        "and": x & y & 0xFF,
        "or": (x | y) & 0xFF,
        "xor": (x ^ y) & 0xFF,
        "less": x < y,
        "at most": x <= y,
        "equal": x == y,
        "unequal": x != y,
        "negate": -y,
        "left": x << (x & 3),
        "right": x >> (x & 3),
        "right, signed": y >> (x & 3),
    }


@pytest.mark.parametrize(("x", "y"), [(0x9C, -100), (0x35, 0x35), (0xFF, -128)])
def test_operators_are_those_of_python(x, y):
    def spec(off):
        spec = Spec()
        signals = spec.free("x", 8), spec.free("y", signed(8))
        spec.given("x", signals[0] == x)
        spec.given("y", signals[1] == y)
        made, wanted = operators(*signals), operators(x, y)
        for name, value in made.items():
            spec.claim(name, value == wanted[name] + off)
        spec.claim("slices", Cat(signals[0][4:], signals[0][:4]) == (x >> 4 | (x & 15) << 4) + off)
        spec.claim("choice", Mux(signals[0][0], signals[0], 3) == (x if x & 1 else 3) + off)
        spec.claim("any", signals[1].any() == (y != 0) ^ off)
        spec.claim("parity", signals[0].xor() == (x.bit_count() & 1) ^ off)
        spec.cover("this one", signals[0] == x)
        return spec

    proved(spec(0), depth=0, reach=1)
    wrong = spec(1)
    names = list(wrong.names["claim"])
    for name in names:
        wrong.names["claim"] = [name]
        assert prove(wrong, depth=1, induction=False).failed == [name]


def counter(*, greatest):
    spec = Spec()
    count = Signal(4)
    with spec.m.If(spec.free("go", 1) & (count != 9)):
        spec.m.d.sync += count.eq(count + 1)
    spec.claim("bounded", count <= greatest)
    spec.cover("nine", count == 9)
    return spec


def test_verdicts():
    proved(counter(greatest=9), depth=1, reach=10)
    refuted(counter(greatest=8), "bounded", depth=10)
    assert prove(counter(greatest=8), depth=9, induction=False).verdict == "bounded"
    # True, but ten follows eleven: not by induction over so few cycles.
    assert prove(counter(greatest=12), depth=2).verdict == "open"
    verdict = prove(counter(greatest=2), depth=5)
    assert verdict.failed == ["bounded"] and [c.get("go", 0) for c in verdict.trace[:3]] == [1] * 3


def test_no_proof_without_a_run():
    with pytest.raises(AssertionError, match="not reached: nine"):
        proved(counter(greatest=9), depth=1, reach=9)
    spec = Spec()
    spec.claim("nothing", 1)
    with pytest.raises(AssertionError, match="wanted a cover"):
        proved(spec, depth=0, reach=1)


def test_refusals():
    spec = counter(greatest=9)
    spec.claim("seen", spec.see("no.such", 4) == 0)
    with pytest.raises(ValueError, match=r"no register 'no\.such', there are count"):
        prove(spec, depth=1)
    with pytest.raises(ValueError, match="'bounded' is there already"):
        spec.claim("bounded", 1)
    with pytest.raises(ValueError, match="wanted 'no such line' once, got it 0 times"):
        broken_module(skid_buffer, "no such line", "")
