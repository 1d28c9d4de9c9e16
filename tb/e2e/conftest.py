import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

# Tests of this folder share modules; importlib mode does not put the folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

Reference = Callable[[bytes, np.ndarray], np.ndarray]


@pytest.fixture(scope="session")
def litert() -> Reference:
    """Outputs of LiteRT's reference kernels for a model's contents and any number of inputs."""
    module = pytest.importorskip("ai_edge_litert.interpreter")

    def run(content: bytes, x: np.ndarray) -> np.ndarray:
        interpreter = module.Interpreter(
            model_content=content,
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
        )
        source = interpreter.get_input_details()[0]["index"]
        interpreter.resize_tensor_input(source, x.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(source, x)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return run
