"""Delegate of LiteRT, against its reference kernels."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import ai_edge_litert.schema_py_generated as schema
import litert
import networks as w
import numpy as np
import pytest

from celosia.litert import Delegate
from celosia.sw.driver.device import DeviceError
from celosia.sw.export import tflite
from celosia.sw.litert.options import MEMBERS
from celosia.sw.operators.registry import OPERATORS
from celosia.sw.runtime.session import Session
from celosia.sw.shipped import model_path

SCALES: dict[str, Any] = {"weight_scale": 0.01, "output_scale": 0.1}


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-127, 128, shape).astype(np.int8)


def bias(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32) * 50


def case(*layers: w.Layer, **names: str) -> bytes:
    return w.write_sequential(layers, input_shape=(1, 9, 9, 4), input_scale=0.05, **names)


def biased(kind: Any, *shape: int, **options: Any) -> w.Layer:
    """Return a layer with weights of a shape, and a bias for each channel of its results."""
    channels = max(shape[0], shape[-1]) if kind is w.Depthwise else shape[0]
    return kind(weights=weights(*shape), bias=bias(channels), **SCALES, **options)


def dense(outputs: int, inputs: int) -> w.Layer:
    return biased(w.FullyConnected, outputs, inputs)


CONVOLUTION = biased(w.Convolution, 6, 3, 3, 4, stride=(2, 2), activation="RELU6")
#: Networks that the core runs as a whole.
WHOLE = {
    "convolution": case(CONVOLUTION),
    "dilated": case(biased(w.Convolution, 5, 3, 2, 4, dilation=(2, 1), padding="VALID")),
    "depthwise": case(biased(w.Depthwise, 1, 3, 3, 8, stride=(1, 1))),
    "transposed": case(
        w.TransposedConvolution(weights=weights(3, 2, 2, 4), stride=(2, 2), **SCALES)
    ),
    "pools": case(
        w.Pool(kind="AVERAGE_POOL_2D", window=(3, 2), stride=(1, 2), padding="SAME"),
        w.Pool(window=(2, 2), stride=(2, 1), activation="RELU"),
    ),
    "reductions": case(w.Mean(keep_dims=True), w.Mean(kind="REDUCE_MAX", axes=(3,))),
    "functions": case(
        w.Function(kind="LEAKY_RELU", alpha=0.3, output_scale=0.06),
        w.Function(kind="GELU", approximate=True, output_scale=0.04),
    ),
    "slices": case(
        w.StridedSlice(begin=(0, 1, 0, 0), end=(1, 9, 8, 4), stride=(1, 2, 1, 1)),
        w.Split(axis=3, parts=2),
    ),
    "joined": case(w.Pool(stride=(1, 1), padding="SAME"), w.Concatenate(others=["input"], axis=1)),
    "resized": case(w.Resize(kind="RESIZE_NEAREST_NEIGHBOR", size=(18, 18))),
    "softmax": case(dense(10, 324), w.Softmax(beta=2.0)),
}


def interpreters(content: bytes, *delegates: Delegate) -> tuple[Any, Any]:
    """Return LiteRT with delegates, and LiteRT's reference kernels alone."""
    ours = litert.interpreter(content, experimental_delegates=list(delegates))
    return ours, litert.interpreter(content)


def samples(interpreter: Any, count: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    ends = interpreter.get_input_details()
    return [rng.integers(-128, 128, (count, *end["shape"])).astype(np.int8) for end in ends]


def require_equal(ours: Any, reference: Any, inputs: list[np.ndarray]) -> None:
    pairs = zip(litert.invoked(ours, *inputs), litert.invoked(reference, *inputs), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize("name", WHOLE)
def test_network_of_the_core(name: str) -> None:
    delegate = Delegate(config="transformer" if name == "softmax" else "edge")
    ours, reference = interpreters(WHOLE[name], delegate)
    require_equal(ours, reference, samples(reference))
    (program,) = delegate.programs
    assert not program.host and delegate.statistics[0].inputs == 2


def test_litert_runs_the_rest() -> None:
    # COS is unknown to Celosia, and a float operator.
    between = w.Operator(kind="COS", output_type="float32")
    layers = (dense(12, 324), w.Dequantize(), between, w.Quantize(output_scale=0.01), dense(5, 12))
    delegate = Delegate(config="micro")
    ours, reference = interpreters(case(*layers), delegate)
    require_equal(ours, reference, samples(reference))
    assert len(delegate.programs) == 2
    assert not any(program.host for program in delegate.programs)


def test_other_batch() -> None:
    ours, reference = interpreters(model_path("mnist_mlp").read_bytes(), Delegate())
    end = reference.get_input_details()[0]
    for batch in (3, 1):
        inputs = [np.random.default_rng(batch).integers(-128, 128, (2, batch, 784)).astype(np.int8)]
        for interpreter in (ours, reference):
            interpreter.resize_tensor_input(end["index"], (batch, 784))
        require_equal(ours, reference, inputs)


def test_another_shape_of_the_second_input() -> None:
    chain = w.Chain((1, 4, 4, 8), 0.5)
    ends = [chain.number, chain.input("second", (1, 4, 4, 8), 0.5)]
    chain.operator("CONCATENATION", (1, 8, 4, 8), inputs=ends, axis=1, scale=0.5)
    delegate = Delegate(config="micro")
    ours, reference = interpreters(w.serialize(chain.graph()), delegate)
    for rows in (6, 2):
        for interpreter in (ours, reference):
            number = interpreter.get_input_details()[1]["index"]
            interpreter.resize_tensor_input(number, (1, rows, 4, 8))
        random = np.random.default_rng(rows)
        inputs = [random.integers(-9, 9, (2, 1, n, 4, 8)).astype(np.int8) for n in (4, rows)]
        require_equal(ours, reference, inputs)
        assert len(delegate.programs) == 1


def test_two_delegates() -> None:
    # The second takes what the first leaves.
    content = case(dense(10, 324), w.Softmax())
    first, second = Delegate(config="edge"), Delegate(config="transformer")
    ours, reference = interpreters(content, first, second)
    require_equal(ours, reference, samples(reference))
    kinds = [[layer.kind for layer in one.programs[0].layers] for one in (first, second)]
    assert kinds == [["FULLY_CONNECTED"], ["SOFTMAX"]]


def test_threads_share_a_delegate() -> None:
    delegate = Delegate(config="micro")
    pairs = [interpreters(case(CONVOLUTION, dense(n, 150)), delegate) for n in (3, 7)]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(require_equal, *pair, samples(pair[1], 5)) for pair in pairs]
        for run in runs:
            run.result()
    assert len(delegate.programs) == 2


def test_devices_are_closed_with_the_interpreter() -> None:
    delegate = Delegate()
    ours, _ = interpreters(case(dense(3, 324)), delegate)
    assert len(delegate.programs) == 1
    del ours
    assert delegate.programs == []


def test_error_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, reference = interpreters(case(dense(3, 324)), Delegate())

    def stop(self: Session, inputs: list[np.ndarray]) -> None:
        raise DeviceError("BUS in LOAD: 100% of it")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "run", stop)
        with pytest.raises(RuntimeError, match="Celosia: BUS in LOAD: 100% of it"):
            litert.invoked(ours, *samples(reference))
    require_equal(ours, reference, samples(reference))


def test_unknown_options() -> None:
    text = "^options: wanted some of cores, .*, got 'preset'; config is the core"
    with pytest.raises(ValueError, match=text):
        Delegate(preset="edge")
    with pytest.raises(ValueError, match="got 'speed'$"):
        Delegate(speed=2)


def test_unknown_device() -> None:
    with pytest.raises(RuntimeError, match="Celosia: device: .*'tpu'"):
        ours, _ = interpreters(case(dense(3, 324)), Delegate(device="tpu"))
        ours.allocate_tensors()


class TestOptions:
    #: Fields that LiteRT's structures lack or that the shapes show.
    ASIDE: ClassVar = {"quantizedBiasType", "quantSpec", "newShape", "squeezeDims"}

    def test_every_field_is_read(self) -> None:
        for kind, record in OPERATORS.items():
            if record.lower is None or not hasattr(schema.BuiltinOperator, kind):
                continue
            table = tflite.table_of(kind)
            fields = vars(getattr(schema, f"{table}T")()) if table else {}
            members = [member.split(":")[0] for member in MEMBERS.get(kind, "").split()]
            assert set(members) == set(fields) - self.ASIDE, kind
