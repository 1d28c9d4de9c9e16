import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import litert
import numpy as np
import prerequisites
import pytest
from digit_pages import one, serving
from networks import FullyConnected, write_fully_connected
from PIL import Image

from celosia.hw.arch.presets import preset
from celosia.hw.environment.extras import examples_command
from celosia.sim.timing.cycles import estimate
from celosia.sw.cli import main
from celosia.sw.driver.device import DeviceError
from celosia.sw.frontend.tflite import load
from celosia.sw.runtime.arrays import InputError
from celosia.sw.shipped import shipped
from celosia_examples.digits.classifier import Classifier
from celosia_examples.digits.picture import CANVAS, normalised

STATIC = Path(sys.modules[Classifier.__module__].__file__ or "").with_name("static")
OCTETS = "application/octet-stream"
PIXELS, POST, BODY = CANVAS * CANVAS, ("POST", "/api/classify"), {"content_type": OCTETS}


def drawn(image: np.ndarray, right: int = 0, down: int = 0) -> np.ndarray:
    """Return a picture of 28 x 28 as it would be drawn on the canvas: large, with hard edges."""
    large = Image.fromarray(image).resize((CANVAS, CANVAS), Image.Resampling.BICUBIC)
    ink = np.where(np.asarray(large) > 100, 255, 0).astype(np.uint8)
    return np.roll(ink, (down, right), (0, 1))


@pytest.fixture(scope="module")
def classifier() -> Iterator[Classifier]:
    made = Classifier("mnist_mlp", preset("nano"))
    yield made
    made.close()


@pytest.fixture
def client(classifier: Classifier) -> Any:
    prerequisites.package("flask")
    from celosia_examples.digits.app import create_app

    return create_app(classifier).test_client()


def test_pictures_are_made_as_those_of_mnist(mnist: tuple[np.ndarray, np.ndarray]) -> None:
    """A digit that is drawn anywhere becomes the picture of the data set again."""
    rng = np.random.default_rng(0)
    differences = []
    for image in mnist[0][:100]:
        right, down = rng.integers(-25, 26, 2)
        made = normalised(drawn(image, right, down))
        rows, columns = (np.flatnonzero(made.any(axis=axis)) for axis in (1, 0))
        assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
        middle = [(np.arange(28) + 0.5) @ made.sum(axis=axis) / made.sum() for axis in (1, 0)]
        assert all(14 <= each < 15 for each in middle)
        differences.append(np.abs(made.astype(int) - image).mean())
    assert np.median(differences) < 6, "of 255"


@pytest.mark.parametrize(
    ("rows", "columns", "dataset", "box"),
    [
        (100, 30, "mnist", (20, 6)),
        (30, 100, "", (6, 20)),
        (1, 1, "mnist", (20, 20)),
        (280, 280, "mnist", (20, 20)),
        (280, 1, "mnist", (20, 1)),
        (100, 50, "fashion-mnist", (28, 14)),
    ],
)
def test_shapes_keep_their_proportions(rows, columns, dataset, box) -> None:
    drawing = np.zeros((CANVAS, CANVAS), np.uint8)
    drawing[CANVAS - rows :, :columns] = 255
    picture = normalised(drawing, dataset)
    found = tuple(int(np.sum(picture.any(axis=axis))) for axis in (1, 0))
    assert picture.shape == (28, 28) and found == box


def test_nothing_drawn() -> None:
    with pytest.raises(InputError, match="wanted a stroke, got an empty canvas"):
        normalised(np.zeros((CANVAS, CANVAS), np.uint8))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["mnist_mlp", pytest.param("mnist_cnn_5x5", marks=pytest.mark.slow)]
)
def test_drawn_digits_are_recognised(name, mnist, figure) -> None:
    images, labels = mnist[0][:50], mnist[1][:50]
    made = Classifier(name, preset("edge"))
    found = [made.classify(drawn(image)).probabilities.argmax() for image in images]
    right = int(np.sum(np.array(found) == labels))
    figure(f"serve: {name} recognises {right} of 50 digits that are drawn on the canvas")
    assert right >= 45


def test_feature_maps_are_those_of_litert() -> None:
    path = shipped()["mnist_cnn_5x5"].path
    result = Classifier("mnist_cnn_5x5", preset("edge")).classify(one())
    options = {"experimental_preserve_all_tensors": True}
    interpreter = prerequisites.litert(path.read_bytes(), **options)
    x = (result.picture.astype(np.int16) - 128).astype(np.int8)
    graph = load(path)
    kinds = ("MAX_POOL_2D", "FULLY_CONNECTED")
    wanted = [each.outputs[0] for each in graph.operations if each.kind in kinds]
    known = litert.invoked(interpreter, x[None], tensors=wanted)
    for values, found in zip(known, result.maps, strict=True):
        assert np.array_equal(found.contents.ravel(), values.ravel())
    assert [each.layer for each in result.maps] == [0, 1, 2, 3]


def test_passes_are_tiles_of_the_model(classifier: Classifier) -> None:
    """Weights and activations of a pass are those of the same taps of a fully connected layer."""
    result = classifier.classify(one())
    graph = load(shipped()["mnist_mlp"].path)
    layers = [each for each in graph.operations if each.kind == "FULLY_CONNECTED"]
    sources = [result.picture.reshape(-1).astype(int) - 128, result.maps[0].contents.reshape(-1)]
    assert [each.layer for each in result.passes] == [0, 1]
    for found, layer, source in zip(result.passes, layers, sources, strict=True):
        weights = graph.tensors[layer.inputs[1]].data
        assert weights is not None and (found.first, found.vectors) == (0, 1)
        padded = np.pad(weights, ((0, -len(weights) % 4), (0, 0)))
        # Rows of a tile are taps, columns are outputs; a MATMUL may start at any of either.
        tiles = padded.reshape(-1, 4, len(source) // 4, 4).transpose(0, 2, 3, 1)
        (steps,) = np.nonzero((tiles == found.weights).all(axis=(2, 3)).any(axis=0))
        taps = source.reshape(-1, 4)[steps]
        assert len(steps) and (taps == found.activations[0]).all(axis=1).any()


def test_softmax_is_taken_once() -> None:
    found = Classifier("mnist_cnn_3x3", preset("edge")).classify(one())
    logits = found.maps[-1]
    scores = logits.scale * (logits.contents.reshape(-1).astype(float) - logits.zero_point)
    wanted = np.exp(scores) / np.exp(scores).sum()
    assert np.allclose(found.probabilities, wanted, atol=1 / 128)
    assert found.probabilities.sum() == pytest.approx(1)


def test_device_that_errs_is_noticed(classifier: Classifier) -> None:
    class Wrong:
        statistics = None

        def run(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
            return [y ^ 1 for y in classifier._machine.run(inputs)]

    other = Classifier("mnist_mlp", preset("nano"))
    other._session, other.device = Wrong(), "rtl"  # type: ignore[assignment]
    with pytest.raises(DeviceError, match="rtl: 10 bytes differ from the machine model"):
        other.classify(one())


def test_rtl(verilator: None) -> None:
    made = Classifier("mnist_mlp", preset("nano"), "rtl")
    for _ in range(2):
        found = made.classify(one())
        assert found.statistics.cycles and found.statistics.counters
        assert found.statistics.cycles == pytest.approx(made.timeline["cycles"], rel=0.02)
    made.close()


def test_page_and_its_files(client: Any) -> None:
    page = client.get("/")
    assert page.status_code == 200 and page.mimetype == "text/html"
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    page.close()
    for path in STATIC.iterdir():
        text = path.read_text()
        # Nothing is loaded from elsewhere; a name of SVG is no address.
        assert not re.search(r"(?<!\w)//\w|https?:", text.replace("http://www.w3.org/2000/svg", ""))
        found = client.get(f"/static/{path.name}")
        assert found.status_code == 200 and found.text == text
        found.close()
        for name in re.findall(r'from "\./([\w.]+)"|(?:href|src)="static/([\w.]+)"', text):
            assert (STATIC / "".join(name)).is_file()


def test_facts_of_the_core(client: Any, classifier: Classifier) -> None:
    found = client.get("/api/core").json
    facts = [found[name] for name in ("model", "core", "rows", "columns")]
    assert facts == ["mnist_mlp", "nano", 4, 4]
    assert found["classes"] == list("0123456789")
    times = found["timeline"]
    wanted = estimate(classifier.program.main.code, classifier.program.config)
    assert times["cycles"] == wanted.total
    spans = {unit["name"]: unit["spans"] for unit in times["units"]}
    assert set(spans) == {"load", "store", "matrix", "vector"}
    matrix = [each for each in wanted.instructions if each.unit.name == "MATRIX"]
    assert [each[:2] for each in spans["matrix"]] == [[m.start, m.finish] for m in matrix]
    assert sum(each["cycles"] for each in times["layers"]) == pytest.approx(wanted.total, abs=40)


def test_response(client: Any, classifier: Classifier) -> None:
    found = client.post("/api/classify", data=one().tobytes(), content_type=OCTETS)
    assert found.status_code == 200
    probabilities = classifier.classify(one()).probabilities
    assert found.json["probabilities"] == pytest.approx(probabilities.tolist())
    assert found.json["cycles"] is None and len(found.json["maps"]) == 2


WRONG = [
    ("GET", "/nothing", {}, 404, "not found"),
    ("GET", "/static/../app.py", {}, 404, "not found"),
    ("GET", "/api/classify", {}, 405, "not allowed"),
    ("POST", "/", {"data": b""}, 405, "not allowed"),
    (*POST, {"data": b"x"}, 415, f"wanted {OCTETS}, got none"),
    (*POST, {"json": [1]}, 415, "got application/json"),
    (*POST, {"data": b"x" * 9, **BODY}, 400, f"wanted {PIXELS} bytes, 280 for each row, got 9"),
    (*POST, {"data": b"x" * (PIXELS + 1), **BODY}, 413, "exceeds the capacity limit"),
    (*POST, {"data": bytes(PIXELS), **BODY}, 422, "wanted a stroke, got an empty canvas"),
    ("GET", "/", {"headers": {"Host": "digits.example"}}, 400, "not trusted"),
    ("GET", "/api/core", {"headers": {"Host": "127.0.0.1.example:80"}}, 400, "not trusted"),
    ("GET", "/static/main.js", {"headers": {"Host": "192.168.0.1:8000"}}, 400, "not trusted"),
]


@pytest.mark.parametrize(("method", "path", "options", "code", "line"), WRONG)
def test_wrong_requests(method, path, options, code, line, client) -> None:
    found = client.open(path, method=method, **options)
    assert found.status_code == code and found.mimetype == "application/json"
    assert list(found.json) == ["error"] and "\n" not in found.json["error"]
    assert line in found.json["error"]
    assert "Content-Security-Policy" in found.headers


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "localhost:80"])
def test_own_names(host: str, client: Any) -> None:
    assert client.get("/api/core", headers={"Host": host}).status_code == 200


def test_failing_device(client: Any, classifier: Classifier, monkeypatch: Any) -> None:
    def fail(drawing: np.ndarray) -> None:
        raise DeviceError("rtl: the simulator\nhas ended")

    monkeypatch.setattr(classifier, "classify", fail)
    found = client.post("/api/classify", data=one().tobytes(), content_type=OCTETS)
    assert (found.status_code, found.json) == (500, {"error": "rtl: the simulator has ended"})


def test_server_listens_on_this_machine_alone(classifier: Classifier) -> None:
    with serving(classifier) as server:
        assert server.socket.getsockname() == ("127.0.0.1", server.port)
        address, headers = f"http://127.0.0.1:{server.port}/api/classify", {"Content-Type": OCTETS}
        request = urllib.request.Request(address, one().tobytes(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            assert np.argmax(json.load(response)["probabilities"]) == 1
        headers["Host"] = "digits.example"
        request = urllib.request.Request(address, one().tobytes(), headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 400
        refused.value.close()
        from celosia_examples.digits.app import open_server

        with pytest.raises(InputError, match=r"--port: wanted a free port, got \d+"):
            open_server(classifier, server.port)


def own(taps: int, classes: int) -> bytes:
    weights = np.zeros((classes, taps), np.int8)
    weights[-2:-1] = 100
    layer = FullyConnected(weights=weights, weight_scale=0.01, output_scale=2.0)
    return write_fully_connected([layer], input_scale=1 / 255, input_zero_point=-128)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("small.tflite", "small.tflite: wanted one input of 28x28x1, got 'input' int8 [9]"),
        ("single.tflite", "wanted one output of scores of 2 to 100 classes, got"),
        ("program", "program: wanted a model, got a program; give the model's file"),
        ("two.tflite", "wanted one input of 28x28x1, got 'left' int8 [2, 3], 'right'"),
        ("mnist_z", "mnist_z: no such file, and no model of the package"),
        ("mnist_cnn_5x5 --port 70000", "wanted 0 to 65535, got 70000"),
        ("mnist_cnn_5x5 --pixels 1", "wanted LOW:HIGH, for instance -1:1, got '1'"),
        ("mnist_cnn_5x5 --device gpu", "wanted one of machine, rtl"),
    ],
)
def test_refused_models(command, line, refused, two_ended, tmp_path) -> None:
    (tmp_path / "small.tflite").write_bytes(own(9, 10))
    (tmp_path / "single.tflite").write_bytes(own(784, 1))
    (tmp_path / "two.tflite").write_bytes(two_ended())
    assert main(f"compile {tmp_path}/small.tflite -o {tmp_path}/program".split()) == 0
    assert line in refused(f"serve {command}")


def test_own_models(tmp_path: Path) -> None:
    path = tmp_path / "own.tflite"
    path.write_bytes(own(784, 3))
    made = Classifier(path, preset("nano"))
    assert made.name == "own.tflite" and made.classes == ("0", "1", "2") and not made.dataset
    assert made.classify(one()).probabilities.argmax() == 1


def test_model_with_floating_point_at_its_ends(root: Path) -> None:
    made = Classifier(root / "tb" / "e2e" / "fixtures" / "cnn.float.tflite", preset("edge"))
    assert made.program.inputs[0].dtype == made.program.outputs[0].dtype == "float32"
    found = made.classify(one())
    logits = found.maps[-1]
    scores = logits.scale * (logits.contents.reshape(-1).astype(float) - logits.zero_point)
    wanted = np.exp(scores) / np.exp(scores).sum()
    assert np.allclose(found.probabilities, wanted, atol=1 / 128)


def test_pieces_of_clothing_have_their_names() -> None:
    made = Classifier("fashion_cnn", preset("edge"))
    assert made.classes[1] == "trouser"
    trousers = np.zeros((CANVAS, CANVAS), np.uint8)
    trousers[20:260, 90:130] = trousers[20:260, 150:190] = trousers[20:70, 90:190] = 200
    assert made.classes[made.classify(trousers).probabilities.argmax()] == "trouser"


def test_without_flask(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "flask", None)
    monkeypatch.delitem(sys.modules, "celosia_examples.digits.app", raising=False)
    assert main(["serve"]) == 1
    wanted = f"celosia: serve: flask is not installed: {examples_command()}\n"
    assert capsys.readouterr().err == wanted
