"""TFLite_Detection_PostProcess: boxes and scores of a detector to the best detections.

In single precision, like LiteRT's kernel. The kernel leaves results past the last detection
uninitialised; here they are zero.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.node import ModelError, Node
from celosia.sw.layers.record import Attributes, Operator, Shape, each_sample, require

#: Whole numbers of the options, and their values where the options leave them out.
_WHOLES = {
    "max_detections": 0,
    "max_classes_per_detection": 0,
    "detections_per_class": 100,
    "num_classes": 0,
}
_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
_REALS = ("nms_score_threshold", "nms_iou_threshold", *_SCALES)

#: Options of whole numbers, and boxes, at most.
_MOST = 1 << 20

_TYPES = ("float32", "uint8", "int8")


def _read(node: Node) -> dict[str, Any]:
    """Read the options, which are a flexbuffer."""
    node.require_inputs(3, results=4)
    raw = node.operator.CustomOptionsAsNumpy()
    if isinstance(raw, int) or not len(raw):
        raise ModelError("wanted options, got none")
    options = flexbuffers.GetRoot(bytes(raw)).AsMap

    def option(name: str, read: Callable[[Any], Any], default: Any) -> Any:
        try:
            return read(options[name])
        except KeyError:
            return default

    wholes = {name: option(name, lambda x: int(x.AsInt), n) for name, n in _WHOLES.items()}
    # The kernel reads single precision.
    reals = {name: option(name, lambda x: float(np.float32(x.AsFloat)), 0.0) for name in _REALS}
    regular = option("use_regular_nms", lambda x: bool(x.AsBool), False)
    return {**wholes, **reals, "use_regular_nms": regular}


def _shapes(operator: HostOperator, attributes: Attributes) -> list[Shape]:
    boxes, scores, anchors = operator.sources
    kinds = (boxes.dtype == "float32") == (anchors.dtype == "float32")
    require(kinds, "boxes and anchors of one type", f"{boxes.dtype} and {anchors.dtype}")
    limit, classes_each, per_class, classes = (
        attributes.integer(name, 1, _MOST) for name in _WHOLES
    )
    attributes.flag("use_regular_nms")
    overlap, *scales = (attributes.real(name) for name in _REALS[1:])
    attributes.real("nms_score_threshold")
    require(0 < overlap <= 1, "nms_iou_threshold above 0, up to 1", overlap)
    require(all(scales), "scales other than 0", scales)
    one, count, fields = boxes.shape if len(boxes.shape) == 3 else (0, 0, 0)
    good = one == 1 and fields >= 4 and anchors.shape == (count, 4)
    require(good, "boxes (1, N, 4) and anchors (N, 4)", f"{boxes.shape} and {anchors.shape}")
    shapes = [(1, count, n) for n in (classes, classes + 1)]
    require(scores.shape in shapes, f"scores {shapes[0]} or {shapes[1]}", scores.shape)
    require(limit * classes_each <= _MOST, f"at most {_MOST} detections", limit * classes_each)
    rows = (1, limit * classes_each)
    return [(*rows, 4), rows, rows, (1,)]


def _real(operand: Operand, array: np.ndarray) -> np.ndarray:
    """Return the real values of an operand, in single precision."""
    if operand.dtype == "float32":
        return array
    centred = array.astype(np.int32) - operand.zero_point
    return centred.astype(np.float32) * np.float32(operand.scale)


def _decoded(boxes: np.ndarray, anchors: np.ndarray, scales: Sequence[float]) -> np.ndarray:
    """Return top, left, bottom and right of boxes given relative to anchors."""
    wide, anchor = boxes[:, :4].astype(np.float64), anchors.astype(np.float64)
    centre = (wide[:, :2] / scales[:2] * anchor[:, 2:] + anchor[:, :2]).astype(np.float32)
    ratios = wide[:, 2:] / scales[2:]
    # NumPy's may differ in the last bit.
    powers = [[math.exp(x) if x < 709 else math.inf for x in row] for row in ratios.tolist()]
    half = (0.5 * np.array(powers) * anchor[:, 2:]).astype(np.float32)
    return np.concatenate([centre - half, centre + half], axis=1)


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return intersection over union of a box and each of some others."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    zero = np.float32(0)
    high = np.maximum(np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0]), zero)
    wide = np.maximum(np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1]), zero)
    common = high * wide
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = common / (area + areas - common)
    return np.where((area <= 0) | (areas <= 0), zero, overlap)


def _suppressed(
    boxes: np.ndarray, scores: np.ndarray, attributes: dict[str, Any], limit: int
) -> list[int]:
    """Return the boxes of the greatest scores, without those that overlap better ones."""
    (candidates,) = np.nonzero(scores >= np.float32(attributes["nms_score_threshold"]))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    active, selected = np.ones(len(order), bool), []
    for index, box in enumerate(order.tolist()):
        if len(selected) >= limit:
            break
        if active[index]:
            selected.append(box)
            overlaps = _overlaps(boxes[box], boxes[order])
            active &= ~(overlaps > np.float32(attributes["nms_iou_threshold"]))
    return selected


def _sift(heap: list[int], hole: int, values: list[float]) -> None:
    """Sift an element down, then up, in a heap whose root is the least value."""
    taken, top, child = heap[hole], hole, 2 * hole + 2
    while child < len(heap):
        child -= values[heap[child]] > values[heap[child - 1]]
        heap[hole], hole = heap[child], child
        child = 2 * child + 2
    if child == len(heap):
        heap[hole], hole = heap[child - 1], child - 1
    while hole > top and values[heap[(hole - 1) // 2]] > values[taken]:
        heap[hole], hole = heap[(hole - 1) // 2], (hole - 1) // 2
    heap[hole] = taken


def _greatest(values: list[float], count: int) -> list[int]:
    """Return the indices of the greatest values, equal ones in the order of ``std::partial_sort``.

    The kernel sorts classes with that of the GNU library; for one class it takes the first.
    """
    if count == 1:
        return [values.index(max(values))]
    heap, result = list(range(count)), list[int]()
    for hole in reversed(range(count // 2)):
        _sift(heap, hole, values)
    for index in range(count, len(values)):
        if values[index] > values[heap[0]]:
            heap[0] = index
            _sift(heap, 0, values)
    while heap:
        result.append(heap[0])
        last = heap.pop()
        if heap:
            heap[0] = last
            _sift(heap, 0, values)
    return result[::-1]


#: Detections: box, class and score of each.
_Found = list[tuple[int, int, np.float32]]


def _fast(boxes: np.ndarray, scores: np.ndarray, attributes: dict[str, Any]) -> tuple[_Found, int]:
    """Return detections of boxes chosen once, by their best class, and the number of boxes."""
    count = min(attributes["max_classes_per_detection"], attributes["num_classes"])
    best = [_greatest(row, count) for row in scores.tolist()]
    selected = _suppressed(boxes, scores.max(axis=1), attributes, attributes["max_detections"])
    detections = [(box, kind, scores[box, kind]) for box in selected for kind in best[box]]
    return detections, len(selected)


def _regular(
    boxes: np.ndarray, scores: np.ndarray, attributes: dict[str, Any]
) -> tuple[_Found, int]:
    """Return detections of boxes chosen for each class separately."""
    detections: _Found = []
    for kind in range(attributes["num_classes"]):
        selected = _suppressed(
            boxes, scores[:, kind], attributes, attributes["detections_per_class"]
        )
        detections += [(box, kind, scores[box, kind]) for box in selected]
        # A stable sort, as the kernel merges each class into those before it.
        detections = sorted(detections, key=lambda detection: -detection[2])[
            : attributes["max_detections"]
        ]
    return detections, len(detections)


def _run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    attributes = operator.attributes
    real = [_real(operand, array) for operand, array in zip(operator.sources, arrays, strict=True)]
    boxes = _decoded(real[0][0], real[2], [attributes[name] for name in _SCALES])
    ordered = (boxes[:, 0] <= boxes[:, 2]) & (boxes[:, 1] <= boxes[:, 3])
    require(bool(ordered.all()), "boxes of at least no height and width")
    # An extra class is the background, the first one.
    scores = real[1][0][:, real[1].shape[2] - attributes["num_classes"] :]
    choose = _regular if attributes["use_regular_nms"] else _fast
    detections, count = choose(boxes, scores, attributes)
    per_class = attributes["max_classes_per_detection"]
    known = min(per_class, attributes["num_classes"])
    results = [np.zeros(result.shape, np.float32) for result in operator.results]
    for number, (box, kind, score) in enumerate(detections):
        index = number
        if not attributes["use_regular_nms"]:
            # The kernel leaves entries of missing classes free.
            index = number // known * per_class + number % known
        results[0][0, index], results[1][0, index], results[2][0, index] = boxes[box], kind, score
    results[3][0] = count
    return results


OPERATORS = (
    Operator(
        kind="TFLite_Detection_PostProcess",
        read=_read,
        shapes=_shapes,
        types=(_TYPES, ("float32",)),
        kernel=each_sample(_run),
        takes_batch=True,
        host="boxes, scores and anchors of float32 or 8 bits; fast and regular suppression",
    ),
)
