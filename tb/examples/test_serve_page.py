"""The page in a browser: drawn on with mouse and keys, read as a screen reader reads it."""

import math
import re
from collections.abc import Iterator

import numpy as np
import prerequisites
import pytest
from browser import Browser
from digit_pages import serving

from celosia.hw.arch.presets import preset
from celosia_examples.digits.classifier import Classification, Classifier

pytestmark = pytest.mark.thorough

#: Strokes as shares of the drawing area.
ONE = [(0.5, 0.15 + 0.05 * n) for n in range(15)]
ZERO = [(0.5 + 0.2 * math.sin(n / 4), 0.5 - 0.32 * math.cos(n / 4)) for n in range(27)]

#: Ids, or names, of what the Tab key reaches, in order, before and after something is drawn.
BEFORE = ["pad", "clear", "zoom", "time", "summary", "array"]
AFTER = [*BEFORE, "pass", "first", "back", "play", "next", "cycle"]

FOCUSED = "document.activeElement.id || document.activeElement.localName"

#: Texts whose contrast to their background is too little, each with its ratio.
FAINT = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => parts(text).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
  };
  return [...document.querySelectorAll("body *")].filter((element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  ).map((element) => {
    const style = getComputedStyle(element);
    const inside = element instanceof SVGElement;
    const pair = [light(inside ? style.fill : style.color), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    return [element.textContent.trim().slice(0, 30), ratio];
  }).filter(([, ratio]) => !(ratio >= 4.5));
})()"""


class Recording(Classifier):
    """A classifier that keeps its results."""

    results: list[Classification]

    def classify(self, drawing: np.ndarray) -> Classification:
        self.results.append(super().classify(drawing))
        return self.results[-1]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Recording, str]]:
    """Classifier and address of a page."""
    classifier = Recording("mnist_cnn_5x5", preset("edge"))
    classifier.results = []
    with serving(classifier) as server:
        yield classifier, f"http://127.0.0.1:{server.port}/"
    classifier.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with prerequisites.browser() as made:
        yield made


@pytest.fixture
def page(browser: Browser, served: tuple[Recording, str]) -> Iterator[Browser]:
    """The page at first."""
    browser.resize(1200, 900)
    browser.prefer()
    browser.open(served[1])
    browser.wait("document.querySelector('#facts').textContent")
    yield browser
    assert not browser.problems
    assert all(each.startswith((served[1], "data:", "about:")) for each in browser.requests)


def drawn(page: Browser, stroke: list[tuple[float, float]], *, finger: bool = False) -> None:
    """Draw with mouse or finger, and wait for the result."""
    page.stroke("#pad", stroke, finger=finger)
    page.wait("document.querySelector('#answer').dataset.busy === 'false'")
    assert "sure" in page.text("#sure")


@pytest.mark.parametrize(("stroke", "digit"), [(ONE, "1"), (ZERO, "0")])
def test_mouse(stroke, digit, page, served) -> None:
    assert page.text("#result").split("\n")[-1] == "Nothing is drawn yet."
    drawn(page, stroke)
    assert page.text("#guess") == digit
    shown = page.text("#bars").split()
    found = served[0].results[-1].probabilities
    assert shown[0::3] == list("0123456789")
    assert [float(text) for text in shown[1::3]] == pytest.approx(100 * found, abs=0.051)
    assert f"{100 * found.max():.1f} % sure" in page.text("#result")
    assert page.run("document.querySelectorAll('#maps canvas').length") == 4
    page.click("#clear")
    assert page.text("#guess") == "?" and page.text("#bars").split()[1] == "–"
    assert page.run("document.querySelectorAll('#maps canvas').length") == 0


def test_keys(page: Browser) -> None:
    page.press("Tab")
    assert page.run(FOCUSED) == "pad"
    assert page.run("!document.querySelector('#cursor').hidden")
    page.press(" ")
    assert page.text("#pen") == "Pen down"
    page.press("ArrowDown", 4, shift=True)
    assert page.text("#pen") == "Pen down, row 23, column 15"
    page.press(" ")
    assert page.text("#pen") == "Pen up"
    page.wait("document.querySelector('#guess').textContent === '1'")
    page.press("ArrowLeft", 30)
    assert page.text("#pen") == "Pen up, row 23, column 1"
    page.press("Delete")
    page.wait("document.querySelector('#guess').textContent === '?'")


def test_array_shows_the_sums_of_the_run(page: Browser, served: tuple[Recording, str]) -> None:
    drawn(page, ZERO)
    found = served[0].results[-1].passes[0]
    sums = found.activations.astype(int) @ found.weights.astype(int)
    page.run("document.querySelector('#array').focus()")
    page.press("ArrowDown", 16)
    page.press("ArrowLeft", 16)
    page.press("ArrowRight", 2)
    page.click("#first")
    assert page.text("#cell") == "Row 16, column 3: no weight yet."
    # Vector 0 is in row 15 and column 2 in cycle 1 + 15 + 2.
    for cycle in range(1, 18 + len(sums)):
        page.click("#next")
        vector, text = cycle - 18, page.text("#cell").replace("−", "-").replace(",", "")
        if vector >= 0:
            numbers = [int(each) for each in re.findall(r"-?\d+", text)]
            weight, activation = found.weights[15, 2], found.activations[vector, 15]
            above = sums[vector, 2] - int(weight) * int(activation)
            assert numbers == [16, 3, weight, activation, above, sums[vector, 2]]
    page.click("#back")
    assert page.text("#array-state").startswith(f"Cycle {16 + len(sums)} of {32 + len(sums)}: ")


@pytest.mark.parametrize(("motion", "seconds"), [("no-preference", "0.25s"), ("reduce", "0s")])
def test_animation(motion: str, seconds: str, page: Browser) -> None:
    page.prefer(reduced_motion=motion)
    duration = "getComputedStyle(document.querySelector('.fill')).transitionDuration"
    assert page.run(duration) == seconds
    drawn(page, ONE)
    page.click("#first")
    cycle = "Number(document.querySelector('#cycle').value)"
    assert page.run(cycle) == 0, "nothing moves by itself"
    page.click("#play")
    assert page.text("#play") == "Pause"
    page.wait(f"{cycle} >= 2")
    page.click("#play")
    assert page.text("#play") == "Play"
    stopped = page.run(cycle)
    assert page.run(f"new Promise((done) => setTimeout(() => done({cycle}), 400))") == stopped


@pytest.mark.parametrize("wanted", [BEFORE, AFTER], ids=["before", "after"])
def test_tab_order_and_focus(wanted: list[str], page: Browser) -> None:
    page.press("Tab")
    if wanted == AFTER:
        page.press(" ")
        page.press("ArrowDown", 16)
        page.press(" ")
        page.wait("!document.querySelector('#play').disabled")
    style = "getComputedStyle(document.activeElement)"
    for each in wanted:
        assert page.run(FOCUSED) == each
        assert page.run(f"{style}.outlineStyle") == "solid"
        assert page.run(f"parseFloat({style}.outlineWidth)") >= 2
        page.press("Tab")
    assert page.run(FOCUSED) == "body"


def test_screen_reader(page: Browser) -> None:
    drawn(page, ONE)
    nodes = page.accessible()
    controls = [node for node in nodes if node.get("focusable") and node["role"] != "RootWebArea"]
    assert len(controls) >= len(AFTER)
    assert all(node["name"].strip() for node in controls)
    images = [node for node in nodes if node["role"] in ("image", "img", "Canvas")]
    assert len(images) == 5 and all(node["name"] for node in images)
    assert any("channels are not zero" in node["name"] for node in images)
    live = [node for node in nodes if node.get("live") == "polite"]
    assert len(live) == 4, "answer, pen, cycle and cell"
    headings = {node["name"] for node in nodes if node["role"] == "heading"}
    assert {"Celosia", "Draw a digit", "Answer of the core"} < headings and len(headings) == 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str, page: Browser) -> None:
    page.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.run("document.querySelector('details').open = true")
    assert page.run(FAINT) == []
    drawn(page, ONE)
    assert page.run(FAINT) == []
    page.run("document.querySelector('h1').style.color = 'rgb(150 150 150)'")
    assert [text for text, _ in page.run(FAINT)] == ["Celosia"] * (scheme == "light")


@pytest.mark.parametrize("width", [320, 360, 700])
def test_finger_on_a_narrow_page(width: int, page: Browser) -> None:
    page.resize(width, 740, phone=True)
    drawn(page, ZERO, finger=True)
    assert page.text("#guess") == "0"
    page.wait("document.querySelectorAll('#maps canvas').length === 4")
    assert page.run("document.documentElement.scrollWidth") == width


def test_errors_are_shown(page: Browser, served: tuple[Recording, str]) -> None:
    page.run("fetch = () => Promise.reject(new TypeError('gone'))")
    page.stroke("#pad", ONE)
    page.wait("document.querySelector('#sure').textContent === 'The server does not respond.'")
