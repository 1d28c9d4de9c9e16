"""Packages and programs that tests need: a test without them is skipped, in CI it fails."""

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import pytest
from browser import Browser, BrowserNotFound

from celosia.sim.simulators import SimulatorNotFound, find_icarus, find_verilator

__all__ = [
    "browser",
    "fst2vcd",
    "icarus",
    "litert",
    "litert_outputs",
    "missing",
    "needed",
    "package",
    "verilator",
]


def missing(reason: object) -> NoReturn:
    """Skip the test, or fail it if the environment variable ``CI`` is ``true``."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be missing: {reason}", pytrace=False)
    pytest.skip(str(reason))


def package(name: str) -> ModuleType:
    """Return a module of an optional package."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f"{name}: {error}")


@contextmanager
def needed(*more: type[Exception]) -> Iterator[None]:
    """Treat a missing simulator, and the errors ``more``, as missing prerequisites."""
    try:
        yield
    except (SimulatorNotFound, *more) as error:
        missing(error)


def verilator() -> Path:
    """Return the Verilator to use."""
    with needed():
        return find_verilator()


def icarus() -> Path:
    """Return the ``iverilog`` to use."""
    with needed():
        return find_icarus()


def fst2vcd() -> str:
    """Return the program that reads waves, of Debian's package gtkwave."""
    return shutil.which("fst2vcd") or missing("fst2vcd: wanted Debian's package gtkwave")


def browser(width: int = 1200, height: int = 900) -> Browser:
    """Return a browser with an empty page."""
    with needed(BrowserNotFound):
        return Browser(width, height)


def litert(content: bytes) -> Any:
    """Return LiteRT's interpreter of a model, with the reference kernels."""
    module = package("ai_edge_litert.interpreter")
    return module.Interpreter(
        model_content=content, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
    )


def litert_outputs(content: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of LiteRT's reference kernels for one invocation."""
    interpreter = litert(content)
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    results = interpreter.get_output_details()
    return [interpreter.get_tensor(details["index"]) for details in results]
