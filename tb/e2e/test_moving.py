"""Random operators that move elements: LiteRT's reference kernels and the host agree."""

from typing import Any

import numpy as np
import pytest
from conformance import assert_equal, differences, reference
from networks import Chain, Constant, serialize
from random_networks.cases import Case
from random_networks.moving import KINDS, moving

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import ModelError, load
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.interpreter import open_session

pytestmark = pytest.mark.usefixtures("litert")

NANO = preset("nano")

#: Cases: in few seconds, and all.
SOME, MANY = 136, 3000


@pytest.mark.parametrize(
    "seeds", [range(SOME), pytest.param(range(SOME, MANY), marks=pytest.mark.slow)]
)
def test_cases(seeds: range) -> None:
    """No case differs or is refused."""
    wrong = []
    for seed in seeds:
        one: Case = moving(seed)
        try:
            found = differences(one, NANO, "machine")
        except (ModelError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
        wrong += [f"seed {seed}, {one.name}: {found}"] * bool(found)
    assert not wrong, "\n".join(wrong)


def test_cases_are_diverse() -> None:
    """All operators come up, and hardly a result is all the same."""
    cases = [moving(seed) for seed in range(SOME)]
    assert {one.name for one in cases} == KINDS
    flat = [one.name for one in cases if len(np.unique(list(reference(one).values())[0])) < 2]
    assert len(flat) < SOME // 4


def _looking_up(most: int, kind: str) -> Chain:
    chain = Chain((1, 3, 1) if kind == "GATHER_ND" else (1, 3), dtype="int32")
    table = Constant(np.arange(most * 2, dtype=np.float32).reshape(most, 2))
    options: dict[str, Any] = {"axis": 0} if kind == "GATHER" else {}
    chain.operator(kind, (1, 3, 2), inputs=[table, chain.number], dtype="float32", **options)
    return chain


@pytest.mark.parametrize("kind", ["GATHER", "GATHER_ND"])
@pytest.mark.parametrize("index", [-1, 5])
def test_index_past_the_end(index: int, kind: str) -> None:
    """The host reports the operator, and computes the next inputs."""
    program = compile_graph(load(serialize(_looking_up(5, kind).graph())), NANO)
    shape = (1, *program.inputs[0].shape)
    with open_session(program, device="machine") as session:
        message = f"operator 0 {kind} .*: wanted indices from 0 to 4, got {index}"
        with pytest.raises(InputError, match=message):
            session.run([np.array([0, index, 1], np.int32).reshape(shape)])
        (result,) = session.run([np.array([4, 0, 1], np.int32).reshape(shape)])
    np.testing.assert_array_equal(result.reshape(-1), [8, 9, 0, 1, 2, 3])


@pytest.mark.parametrize(("batch", "shape"), [(-1, (2, 4)), (-2, (2, 2, 4, 3))])
def test_batches_counted_from_the_end(
    batch: int, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    chain = Chain((2, 3, 3) if batch == -2 else (2, 3), dtype="float32")
    indices = np.array([[2, 0, 0, 1], [1, 1, 0, 2]], np.int32)
    chain.operator("GATHER", shape, [indices], axis=1, batchDims=batch)
    x = rng.random((2, *chain.tensor(0).shape), np.float32)
    assert_equal(chain.graph(), x, sizes="nano")


def test_constant_index_past_the_end() -> None:
    chain = Chain((1, 2), dtype="float32")
    table = Constant(np.zeros((2, 2), np.float32))
    indices = np.array([0, 2], np.int32)
    chain.operator("GATHER", (2, 2), inputs=[table, indices], axis=0)
    with pytest.raises(ModelError, match="operator 0 GATHER .*: wanted indices from 0 to 1, got 2"):
        load(serialize(chain.graph()))


def _one(kind: str, *constants: object, shape: tuple[int, ...] = (2, 3), **options: Any) -> bytes:
    chain = Chain((2, 3), dtype="float32")
    chain.operator(kind, shape, [np.array(x, np.int32) for x in constants], **options)
    return serialize(chain.graph())


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (_one("TILE", [2]), "wanted multiples of 2 dimensions"),
        (_one("TILE", [0, 1]), "wanted multiples of at least 1"),
        (_one("BROADCAST_TO", [4, 3], shape=(4, 3)), r"wanted a shape that broadcasts to \(4, 3\)"),
        (_one("MIRROR_PAD", [[0, 2], [0, 0]], mode="REFLECT"), r"wanted margins that \(2, 3\) can"),
        (_one("MIRROR_PAD", [[0, 0]]), r"wanted paddings of shape \(2, 2\)"),
        (_one("REVERSE_V2", [2]), "wanted axes from -2 to 1"),
        (_one("GATHER", [0], axis=2), "wanted an axis from -2 to 1, got 2"),
        (_one("GATHER", [0], axis=0, batchDims=1), "wanted batch_dims from 0 to 0, got 1"),
        (_one("GATHER_ND", [0, 0, 0]), "wanted indices of up to 2 dimensions"),
        (_one("TOPK_V2", 4), "wanted 1 input and one output|wanted .* got"),
        (_one("WHERE"), "wanted constant .* condition, got computed float32"),
        (
            _one("STRIDED_SLICE", [0, 0], [1, 1], [1, 1], ellipsisMask=3),
            "wanted begin, end and strides of 2 dimensions",
        ),
        (
            _one("STRIDED_SLICE", [0], [1], [1], offset=True),
            "wanted ends of all dimensions, as offsets",
        ),
        (_one("FILL", [-1]), "wanted"),
        (_one("RANGE", 3), "wanted 3 inputs"),
    ],
)
def test_refusals(content: bytes, wanted: str) -> None:
    with pytest.raises(ModelError, match=wanted) as raised:
        load(content)
    assert "\n" not in str(raised.value)
