"""TFLite_Detection_PostProcess, a custom operator: LiteRT's kernel and the host's agree."""

from typing import Any

import numpy as np
import prerequisites
import pytest
from flatbuffers import flexbuffers
from networks import Chain, Constant, serialize

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.interpreter import open_session

KIND = "TFLite_Detection_PostProcess"
NANO = preset("nano")
OPTIONS: dict[str, Any] = {
    "max_detections": 6,
    "max_classes_per_detection": 1,
    "num_classes": 4,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def detector(
    rng: np.random.Generator,
    options: dict[str, Any],
    kind: str,
    boxes: int,
    classes: int,
    anchors: np.ndarray | None = None,
) -> bytes:
    """Return a file of a detector's last operator: boxes and scores are inputs."""
    scale, zero_point = (0.5, 128) if kind == "uint8" else (0, 0)
    chain = Chain((1, boxes, 4), scale, zero_point, kind)
    first = chain.number
    scores = chain.input("scores", (1, boxes, classes), scale and 1 / 256, 0, kind)
    if anchors is None:
        anchors = rng.random((boxes, 4)).astype(np.float32) * 0.3 + 0.1
    given = Constant(anchors)
    if kind == "uint8":
        given = Constant((anchors * 255).astype(np.uint8), 1 / 255, 0)
    most = options["max_detections"] * options["max_classes_per_detection"]
    shapes = [(1, most, 4), (1, most), (1, most), (1,)]
    printed = bytes(flexbuffers.Dumps(options))
    inputs = [first, scores, given]
    chain.operator(KIND, inputs=inputs, shapes=shapes, dtype="float32", customOptions=printed)
    return serialize(chain.graph(*chain.results))


def contents(rng: np.random.Generator, shape: tuple[int, ...], kind: str, ties: bool) -> np.ndarray:
    """Return encoded boxes, or scores of which few differ."""
    if kind == "uint8":
        step = 32 if ties else 1
        return rng.integers(0, 256, shape).astype(np.uint8) // step * step
    found = rng.random(shape, np.float32)
    return np.round(found * 8) / np.float32(8) if ties else found


def ours(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    program = Program.from_bytes(compile_graph(load(content), NANO).to_bytes())
    with open_session(program, device="machine") as session:
        given = [x.reshape(1, *p.shape) for x, p in zip(inputs, program.inputs, strict=True)]
        return session.run(given)


@pytest.mark.parametrize("ties", [False, True], ids=["all different", "ties"])
@pytest.mark.parametrize("regular", [False, True], ids=["fast", "regular"])
@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_detections(regular: bool, kind: str, ties: bool) -> None:
    some = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        options = OPTIONS | {
            "max_detections": int(rng.integers(1, 12)),
            "max_classes_per_detection": int(rng.integers(1, 6)),
            "detections_per_class": int(rng.integers(1, 9)),
            "use_regular_nms": regular,
            "nms_score_threshold": float(rng.choice([1e-8, 0.3, 0.6])),
            "nms_iou_threshold": float(rng.choice([0.2, 0.5, 1.0])),
        }
        boxes, background = int(rng.integers(1, 30)), int(rng.integers(0, 2))
        content = detector(rng, options, kind, boxes, options["num_classes"] + background)
        inputs = [
            contents(rng, (1, boxes, 4), kind, False),
            contents(rng, (1, boxes, options["num_classes"] + background), kind, ties),
        ]
        wanted, got = prerequisites.litert_outputs(content, *inputs), ours(content, inputs)
        count, each = int(wanted[3][0]), 1 if regular else options["max_classes_per_detection"]
        some += count > 1
        np.testing.assert_array_equal(got[3].reshape(-1), wanted[3])
        # What comes after the last detection, LiteRT leaves as it was in memory.
        known = each if regular else min(each, options["num_classes"])
        rows = [n * each + k for n in range(count) for k in range(known)]
        for one, other in zip(got[:3], wanted[:3], strict=True):
            ends = [x.reshape(-1, *other.shape[2:])[rows] for x in (one, other)]
            np.testing.assert_array_equal(*ends, err_msg=f"seed {seed}")
    assert some > 7


@pytest.mark.parametrize("regular", [False, True], ids=["fast", "regular"])
def test_a_score_at_the_threshold_counts(regular: bool) -> None:
    options = OPTIONS | {"use_regular_nms": regular, "nms_score_threshold": 0.25}
    content = detector(
        np.random.default_rng(0), options | {"detections_per_class": 9}, "float32", 4, 4
    )
    boxes, scores = np.zeros((1, 4, 4), np.float32), np.full((1, 4, 4), 0.1, np.float32)
    scores[0, :, 1] = [0.25, np.nextafter(np.float32(0.25), np.float32(0)), 0.5, 0.25]
    wanted = prerequisites.litert_outputs(content, boxes, scores)
    got, count = ours(content, [boxes, scores]), int(wanted[3][0])
    assert count == got[3].reshape(-1)[0] >= 2
    for one, other in zip(got[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(one.reshape(other.shape)[:, :count], other[:, :count])


@pytest.mark.parametrize("regular", [False, True], ids=["fast", "regular"])
@pytest.mark.parametrize(("limit", "kept"), [(0.5, 2), (0.49, 1), (0.51, 2)])
def test_an_overlap_at_the_threshold_stays(limit: float, kept: int, regular: bool) -> None:
    """The second box is one half of the first."""
    options = OPTIONS | {"use_regular_nms": regular, "nms_iou_threshold": limit}
    anchors = np.array([[0.5, 0.5, 1, 1], [0.5, 0.25, 1, 0.5]], np.float32)
    rng = np.random.default_rng(0)
    content = detector(rng, options | {"detections_per_class": 9}, "float32", 2, 4, anchors)
    boxes, scores = np.zeros((1, 2, 4), np.float32), np.zeros((1, 2, 4), np.float32)
    scores[0, :, 1] = [0.75, 0.5]
    expected = prerequisites.litert_outputs(content, boxes, scores)
    got = ours(content, [boxes, scores])
    assert int(expected[3][0]) == got[3].reshape(-1)[0] == kept


def test_boxes_of_no_size_are_refused(rng: np.random.Generator) -> None:
    content = detector(rng, OPTIONS | {"h_scale": -1e-3}, "float32", 3, 4)
    boxes = np.full((1, 3, 4), np.nan, np.float32)
    wanted = f"operator 0 {KIND} .*: wanted boxes of at least no height and width"
    with pytest.raises(InputError, match=wanted):
        ours(content, [boxes, np.ones((1, 3, 4), np.float32)])


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"num_classes": 2}, r"wanted scores \(1, 5, 2\) or \(1, 5, 3\), got \(1, 5, 4\)"),
        ({"nms_iou_threshold": 0.0}, "wanted nms_iou_threshold above 0, up to 1, got 0.0"),
        ({"y_scale": 0.0}, "wanted scales other than 0"),
        ({"detections_per_class": 0}, "wanted detections_per_class from 1 to"),
    ],
)
def test_refusals(changed: dict[str, Any], wanted: str, rng: np.random.Generator) -> None:
    with pytest.raises(ModelError, match=f"operator 0 {KIND} .*: {wanted}"):
        load(detector(rng, OPTIONS | changed, "float32", 5, 4))


def test_another_custom_operator_is_named() -> None:
    """A builtin's name makes no builtin of a custom operator."""
    chain = Chain((1, 4), 0.1)
    chain.operator("Fancy", (1, 4))
    with pytest.raises(ModelError, match="operator 0 CUSTOM 'Fancy' .*: operator is not supported"):
        load(serialize(chain.graph()))
