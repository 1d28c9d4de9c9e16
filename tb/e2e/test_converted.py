"""Files of TensorFlow's and PyTorch's converters: machine model and LiteRT agree.

``fixtures/make_keras.py`` and ``fixtures/make_torch.py`` make them; a few are kept, the slow tests
make all of them again.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import litert
import numpy as np
import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.runtime.interpreter import open_session

FIXTURES = Path(__file__).parent / "fixtures"
KEPT = sorted(path.stem for path in FIXTURES.glob("*.tflite") if not path.stem.endswith(".plain"))

#: Refused so far: the first of the operators or types that are missing.
WAITING = {"gru.int16": "scales that are no numbers"}

_INVOCATIONS = 6
_WORDS = 50


def stimuli(interpreter: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random inputs for each invocation: of all values, words, or numbers from 0 to 1."""
    arrays = []
    for end in interpreter.get_input_details():
        shape, dtype = (_INVOCATIONS, *map(int, end["shape"][1:])), np.dtype(end["dtype"])
        if dtype == np.float32:
            arrays.append(rng.random(shape, np.float32))
        elif dtype == np.int32:
            arrays.append(rng.integers(0, _WORDS, shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max + 1, shape).astype(dtype))
    return arrays


def reference_of(content: bytes) -> Any:
    """Return LiteRT with the reference kernels, or the built-in ones for networks with SUM.

    The reference kernels of DEPTH_TO_SPACE and TILE take int8, but are registered for the first
    version alone. That of SUM takes int8 for uint8.
    """
    schema: Any = prerequisites.package("ai_edge_litert.schema_py_generated")
    flatbuffers: Any = prerequisites.package("flatbuffers")
    module: Any = prerequisites.package("ai_edge_litert.interpreter")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    kinds, options = schema.BuiltinOperator, {}
    for code in model.operatorCodes:
        if code.builtinCode in (kinds.DEPTH_TO_SPACE, kinds.TILE):
            code.version = 1
        if code.builtinCode == kinds.SUM:
            kernels = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            options = {"experimental_op_resolver_type": kernels}
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return litert.interpreter(bytes(builder.Output()), **options)


def check(content: bytes, rng: np.random.Generator) -> None:
    """Compare every output of a few invocations."""
    interpreter = reference_of(content)
    arrays = stimuli(interpreter, rng)
    program = compile_graph(load(content), preset("edge"))
    with open_session(program) as session:
        outputs = session.run(arrays)
    for got, wanted in zip(outputs, litert.invoked(interpreter, *arrays), strict=True):
        np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("name", [name for name in KEPT if name not in WAITING])
def test_bytes_of_kept_files(name: str, rng: np.random.Generator) -> None:
    check((FIXTURES / f"{name}.tflite").read_bytes(), rng)


@pytest.mark.parametrize("name", WAITING)
def test_waiting_files_are_refused(name: str, rng: np.random.Generator) -> None:
    """Fails as soon as one is accepted: then its line above goes."""
    content = (FIXTURES / f"{name}.tflite").read_bytes()
    interpreter = reference_of(content)
    litert.invoked(interpreter, *stimuli(interpreter, rng))
    with pytest.raises(ValueError):
        compile_graph(load(content), preset("edge"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "package"), [("make_keras", "tensorflow"), ("make_torch", "litert_torch")]
)
def test_all_files_made_again(script, package, tmp_path, rng, figure) -> None:
    if importlib.util.find_spec(package) is None:
        prerequisites.missing(package)
    subprocess.run(
        [sys.executable, str(FIXTURES / f"{script}.py"), "--folder", str(tmp_path)], check=True
    )
    files = sorted(path for path in tmp_path.glob("*.tflite") if ".plain" not in path.name)
    refused = {}
    for path in files:
        try:
            check(path.read_bytes(), rng)
        except ValueError as error:
            refused[path.stem] = str(error)
    figure(f"{script}: {len(files) - len(refused)} of {len(files)} networks, all bytes equal")
    assert files and refused.keys() <= WAITING.keys(), refused
