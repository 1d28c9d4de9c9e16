"""Zero points of operands of BATCH_MATMUL that become 0."""

from pathlib import Path

import numpy as np
import pytest
import tflite
from litert import interpreter, invoked
from networks import Chain, serialize

from celosia.sw.frontend.tflite import load
from celosia.sw.ir.graph import Graph, Quantization
from celosia.sw.quantize.symmetric import _centre, symmetric

VIT = Path(__file__).parent / "fixtures" / "vit.tflite"


def pairs(zeros: tuple[int, int], *, whole: bool = False) -> bytes:
    """Return the product of an image with itself, transposed; both operands are requantised."""
    chain, operands = Chain((1, 2, 4, 4), 0.1, 7), []
    for zero in zeros:
        chain.back_to(0)
        chain.operator("QUANTIZE", scale=0.05, zero_point=zero)
        operands.append(chain.number)
    chain.operator("TRANSPOSE", (1, 2, 4, 4), [np.array([0, 1, 3, 2], np.int32)])
    operands[1] = chain.number
    chain.operator("BATCH_MATMUL", (1, 2, 4, 4), inputs=operands, scale=3.0, zero_point=1)
    outputs = (chain.number, operands[0]) if whole else (chain.number,)
    return serialize(chain.graph(*outputs))


def meaning(graph: Graph, kind: str, nth: int = 0) -> Quantization:
    found = [each for each in graph.operations if each.kind == kind][nth]
    quantization = graph.tensors[found.outputs[0]].quantization
    assert quantization is not None
    return quantization


@pytest.mark.parametrize("zero", [-32, -1, 0, 5, 32])
def test_no_number_is_lost(zero: int) -> None:
    graph = load(symmetric(pairs((zero, 0))))
    found = meaning(graph, "QUANTIZE")
    assert found.zero_point == 0
    # The least and the greatest number of before.
    low, high = (np.float32(0.05) * (end - zero) for end in (-128, 127))
    assert -128 * found.scale <= low and high <= 127 * found.scale
    assert found.scale <= 0.05 * 1.26
    assert (zero == 0) == (found.scale == np.float32(0.05))


def test_moved_operands_change_with_their_source() -> None:
    graph = load(symmetric(pairs((0, 9))))
    assert meaning(graph, "QUANTIZE", 1).equals(meaning(graph, "TRANSPOSE"))
    assert meaning(graph, "TRANSPOSE").zero_point == 0


def test_others_stay() -> None:
    content = pairs((33, -40))
    assert symmetric(content) == content
    content = pairs((0, 0))
    assert symmetric(content) == content


def test_operands_that_others_only_move_stay() -> None:
    """CONCATENATION needs one scale of its inputs and its result."""
    chain = Chain((1, 2, 4, 4), 0.1, 7)
    chain.operator("QUANTIZE", scale=0.05, zero_point=5)
    one = chain.number
    chain.operator("CONCATENATION", (1, 2, 8, 4), inputs=[one, one], axis=2)
    two = chain.number
    chain.operator("BATCH_MATMUL", (1, 2, 4, 8), inputs=[one, two], adjY=True, scale=3.0)
    content = serialize(chain.graph())
    assert symmetric(content) == content


def test_outputs_of_the_model_stay() -> None:
    graph = load(symmetric(pairs((5, 0), whole=True)))
    assert meaning(graph, "QUANTIZE").zero_point == 5


def test_a_transformer_keeps_its_results(litert: None, rng: np.random.Generator) -> None:
    """Its softmax stays, and its results hardly change."""
    content = VIT.read_bytes()
    changed = symmetric(content)
    assert changed != content and symmetric(changed) == changed
    before, after = load(content), load(changed)
    assert meaning(after, "SOFTMAX").equals(meaning(before, "SOFTMAX"))
    operands = [n for o in after.operations if o.kind == "BATCH_MATMUL" for n in o.inputs]
    zeros = [each.zero_point for n in operands if (each := after.tensors[n].quantization)]
    assert zeros.count(0) >= 3
    (shape,) = (before.tensors[number].shape for number in before.inputs)
    given = rng.integers(-128, 128, (8, *shape)).astype(np.int8)
    results = [invoked(interpreter(each), given)[0].astype(int) for each in (content, changed)]
    assert 0 < np.abs(results[0] - results[1]).max() <= 16


class Parameters:
    """Quantisation of one tensor, as the flatbuffers package gives it."""

    def __init__(self, scale: float, zero: int) -> None:
        self.scale, self.zero = np.array([scale], np.float32), np.array([zero], np.int64)

    def ScaleAsNumpy(self) -> np.ndarray:
        """Return the scales."""
        return self.scale

    def ZeroPointAsNumpy(self) -> np.ndarray:
        """Return the zero points."""
        return self.zero


@pytest.mark.parametrize("scale", [0.05, 0.1, 1 / 3, 0.007, 1.7e-5])
def test_the_ends_of_the_range_stay_in_it(scale: float) -> None:
    """Exactly, whichever way the new scale is rounded."""
    for zero in range(-32, 33):
        found = Parameters(scale, zero)
        before = float(found.scale[0])
        _centre([found])
        after = float(found.scale[0])
        assert found.zero[0] == 0
        assert 127 * after >= before * (127 - zero) and 128 * after >= before * (128 + zero)


def shared(*, joined: bool) -> bytes:
    """Return a product of an operand whose equal is an output; ``joined`` stores one scale."""
    chain = Chain((1, 2, 4, 4), 0.1, 7)
    numbers = []
    for _ in range(2):
        chain.back_to(0)
        chain.operator("QUANTIZE", scale=0.05, zero_point=5)
        numbers.append(chain.number)
    chain.operator("BATCH_MATMUL", (1, 2, 4, 4), inputs=[numbers[0], 0], scale=3.0, zero_point=1)
    content = bytearray(serialize(chain.graph(chain.number, numbers[1])))
    graph = tflite.Model.GetRootAs(content, 0).Subgraphs(0)
    assert graph
    tensors = [graph.Tensors(number) for number in numbers]
    first, second = (tensor._tab for tensor in tensors if tensor)
    # Field 4 of a tensor holds the distance to its quantisation, which lies after it.
    fields = [table.Pos + table.Offset(12) for table in (first, second)]
    low, high = sorted(fields)
    target = high + int.from_bytes(content[high : high + 4], "little")
    if joined:
        content[low : low + 4] = (target - low).to_bytes(4, "little")
    return bytes(content)


def test_a_scale_that_is_stored_for_two_tensors_stays() -> None:
    apart = load(symmetric(shared(joined=False)))
    zeros = [meaning(apart, "QUANTIZE", nth).zero_point for nth in range(2)]
    assert sorted(zeros) == [0, 5], "the operand alone changes"
    content = shared(joined=True)
    assert content != shared(joined=False) and symmetric(content) == content
