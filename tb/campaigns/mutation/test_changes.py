"""Drawn changes, and the difference that they make."""

import ast
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from mutation.blocks import BLOCKS
from mutation.campaign import stages_of
from mutation.changes import changes, slots
from mutation.explained import read, stale
from mutation.sites import ROOT, Changed, Helpers, draw, sites_of
from mutation.tiny import Tally

TINY = "tb/campaigns/mutation/tiny.py"


def printed(statement: str) -> list[str]:
    """Return the possible changes of a statement."""
    function = ast.parse(f"def elaborate(m):\n    {statement}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return [text for slot in slots(function) for text, _ in changes(slot, function)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a + b", {"a - b", "a", "b"}),
        ("a - b", {"a + b", "a"}),
        ("a & b", {"a | b", "a", "b"}),
        ("a | b", {"a & b", "a", "b"}),
        ("a ^ b", {"a | b", "a", "b"}),
        ("a << b", {"a"}),
        ("a >> b", {"a"}),
        ("a == b", {"a != b"}),
        ("a != b", {"a == b"}),
        ("a < b", {"a <= b", "a >= b"}),
        ("a >= b", {"a > b", "a < b"}),
        ("~a", {"a"}),
        ("5", {"6", "4"}),
        ("0", {"1", "-1"}),
        ("a[1:n]", {"1:n - 1"}),
        ("Mux(a, b, c)", {"Mux(a, c, b)", "b", "c"}),
        ("Cat(a, b)", {"Cat(b, a)"}),
        ("Cat(a, b, c)", set()),
        ("a.any()", {"a.all()"}),
        ("a.as_signed()", {"a"}),
        ("a.eq(b)", {"left out", "gets 0", "gets its inverse"}),
        ("a.eq(1)", {"left out", "a.eq(0)"}),
        ("a.eq(~b)", {"left out", "gets 0"}),
        ("m.If(a)", {"condition negated", "always", "never"}),
        ("m.Case(A)", {"never"}),
        ("Signal(a + b)", set()),
        ("Signal(8, reset_less=True)", set()),
        ("Signal(8, init=3)", {"4", "2"}),
        ("unsigned(a + 1)", set()),
        ("[a + b for n in range(3)]", {"a - b", "a", "b"}),
    ],
)
def test_what_may_stand_instead(expression, wanted):
    found = [text for text in printed(f"x = {expression}") if "first round" not in text]
    inner = {"5": (), "0": ()}.get(expression, ("1", "0", "a.eq(1)", "~b"))
    got = {text.split(" => ")[1] for text in found if text.split(" => ")[0] not in inner}
    assert got >= wanted if "[1:" in expression else got == wanted or got - wanted <= {"b"}


def test_registers_begin_with_something_else():
    text = "x = Signal(4)\n    y = Signal(4)\n    m.d.sync += x[1].eq(a)\n    m.d.comb += y.eq(a)"
    beginnings = [line for line in printed(text) if "begins" in line]
    assert beginnings == ["x = Signal(4) => begins at 1"]
    assert printed(text.replace("(4)", "(4, reset_less=True)"))[0] != beginnings[0]


def test_states_and_rounds():
    text = 'with m.State("A"):\n        m.next = "B"\n    with m.State("B"):\n        pass'
    assert printed(text) == ["m.next = 'B' => left out", "m.next = 'B' => A"]
    assert "a + n => a - n, first round" in printed("x = [a + n for n in range(3)]")
    assert "a + n => a - n, first round" not in printed("x = a + n")


@pytest.mark.parametrize(
    "statement",
    [
        "if a + b: pass",
        "raise ValueError(a + b)",
        "x = f'{a + b}'",
        "x: Signal(a + b) = c",
        "x = [c for n in range(a + b)]",
        "x = data.ArrayLayout(a + b, 4)",
        "m.submodules.x = Part(name=a + b)",
    ],
)
def test_left_alone(statement):
    assert printed(statement) == []


def test_a_draw_is_the_same_each_time_and_spread_over_lines():
    sites_of.cache_clear()
    first = draw([TINY], 1000, 1)
    sites_of.cache_clear()
    assert first == draw([TINY], 1000, 1)
    assert set(first) == set(draw([TINY], 1000, 2)) and first != draw([TINY], 1000, 2)
    assert len(set(first)) == len(first) == len(sites_of(TINY))
    lines = {site.line for site in first}
    assert {site.line for site in first[: len(lines)]} == lines
    assert draw([TINY], 5, 1) == first[:5]


def test_a_change_is_there_while_it_is_entered_and_no_longer(rtlil):
    right = rtlil()
    made = 0
    for site in sites_of(TINY):
        text = right
        with Changed(site) as changed, suppress(IndexError):
            text = rtlil()
            # Removed statements, and bounds of slices, record no elaboration.
            assert Helpers.reached or not changed.traced
        made += text != right
        # Beyond the bits, or one of them more than the target takes.
        assert text != right or site.change in ("1 => 2", "4 => 5"), site.name
        assert rtlil() == right
    assert made > 30


@pytest.fixture
def rtlil():
    """Return the circuit of the tiny component."""
    backend: Any = import_module("amaranth.back.rtlil")
    return lambda: backend.convert(Tally(), emit_src=False)


def test_files_and_tests_of_the_blocks_are_there():
    packages = ("axi", "dma", "lib", "matrix", "memory", "sequencer", "softmax", "vector")
    files = [file for block in BLOCKS for file in block.files]
    assert len(set(files)) == len(files)
    wanted = {path for package in packages for path in (ROOT / "hw" / package).glob("*.py")}
    with_sites = {str(p.relative_to(ROOT)) for p in wanted if sites_of(str(p.relative_to(ROOT)))}
    # Names of ports alone.
    with_sites -= {"hw/axi/standard.py"}
    # Not in these folders.
    apart = {f"hw/{name}.py" for name in ("core", "pod", "streams", "targets/product")}
    assert set(files) ^ with_sites == apart
    for block in BLOCKS:
        assert stages_of(block)
        assert all((ROOT / test).is_file() for stage in stages_of(block) for test in stage.tests)


def test_nothing_is_explained_that_is_not_there():
    assert stale(read()) == []


def test_what_is_gone_is_stale(tmp_path):
    table = tmp_path / "explained.toml"
    entry = '[[explained]]\nfile = "{}"\nline = "{}"\nchange = ["{}"]\nwhy = "w"\n'
    site = sites_of(TINY)[0]
    table.write_text(entry.format(TINY, site.source, site.change.replace('"', '\\"')))
    assert stale(read(table)) == []
    table.write_text(entry.format(TINY, "m.d.comb += gone.eq(1)", "1 => 0"))
    assert len(stale(read(table))) == 1
    table.write_text(entry.format("hw/gone.py", "line", "1 => 0"))
    assert len(stale(read(table))) == 1
    table.write_text(entry.format(TINY, "a", "b") * 2)
    with pytest.raises(ValueError, match="twice"):
        read(table)
    table.write_text('[[explained]]\nfile = "a"\nline = "b"\nwhy = "w"\n')
    with pytest.raises(ValueError, match="no 'change'"):
        read(table)
