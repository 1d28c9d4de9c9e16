"""Packages and programs that tests need: a test without them is skipped, in CI it fails."""

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import litert as kernels
import numpy as np
import pytest
from browser import Browser, BrowserNotFound

from celosia.sim.rtl.simulators import SimulatorNotFound, find_icarus, find_verilator


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


def verilator(minimum: tuple[int, int] = (5, 0)) -> Path:
    """Return the Verilator to use: (5, 48) wants 5.048 or newer."""
    with needed():
        return find_verilator(minimum)


def icarus() -> Path:
    """Return the ``iverilog`` to use."""
    with needed():
        return find_icarus()


def fst2vcd() -> str:
    """Return the program that reads waves, of Debian's package gtkwave."""
    return shutil.which("fst2vcd") or missing("fst2vcd: wanted Debian's package gtkwave")


def riscv() -> str:
    """Return the C compiler for a processor without an operating system."""
    name = "riscv64-unknown-elf-gcc"
    return shutil.which(name) or missing(f"{name}: wanted Debian's package gcc-riscv64-unknown-elf")


def browser(width: int = 1200, height: int = 900) -> Browser:
    """Return a browser with an empty page."""
    with needed(BrowserNotFound):
        return Browser(width, height)


def litert(content: bytes, graph: Any = None, **options: Any) -> Any:
    """Return LiteRT's interpreter of a model, with the reference kernels."""
    package("ai_edge_litert.interpreter")
    return kernels.interpreter(content, graph, **options)


def litert_runs(content: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of LiteRT's reference kernels for invocations: all of shape (N, ...)."""
    return kernels.invoked(litert(content), *inputs)


def litert_outputs(content: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of LiteRT's reference kernels for one invocation."""
    return [found[0] for found in litert_runs(content, *(array[None] for array in inputs))]
