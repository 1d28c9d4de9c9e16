"""Sites: possible changes of the gateware, a random choice of them, and their application."""

import ast
import enum
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from amaranth.hdl import Const, Value

from mutation.changes import FIRST, HELPERS, changes, reach, slots, traced

ROOT = Path(__file__).resolve().parents[3]

#: Types of parameters that only functions which make hardware have.
_HARDWARE = {"Module", "Value", "Signal", "data.View", "list[Value]", "list[Signal]"}


@dataclass(frozen=True)
class Site:
    """One change of one slot.

    ``file``: path in the tree; ``function``: qualified name of the function; ``slot``, ``choice``:
    index of the slot in the function, and of the change among those of the slot; ``line``: number
    of the line; ``source``: that line, without indentation; ``change``: source before and after the
    change.
    """

    file: str
    function: str
    slot: int
    choice: int
    line: int
    source: str
    change: str

    @property
    def name(self) -> str:
        """Name in a report."""
        return f"{self.file}:{self.line}: {self.change}"

    @property
    def identity(self) -> str:
        """Text that no other site has while the file is unchanged."""
        return f"{self.file} {self.function} {self.slot} {self.choice} {self.change}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Key that does not change when lines are moved."""
        return self.file, self.source, self.change


class Helpers:
    """Functions that changed code calls while it elaborates.

    ``reached``: true if changed code was elaborated.
    """

    reached = False

    @staticmethod
    def reach(value: Any) -> Any:
        """Note that changed code gave a value, and return it."""
        Helpers.reached = True
        return value

    @staticmethod
    def first() -> Callable[[], bool]:
        """Return a function that is true when it is called for the first time."""
        rounds = iter([True])
        return lambda: next(rounds, False)

    @staticmethod
    def zero(value: Any) -> Any:
        """Return zero of the same shape; the first member of an enumeration."""
        if isinstance(value, enum.Enum):
            return next(iter(type(value)))
        return Const(0, Value.cast(value).shape())

    @staticmethod
    def inverse(value: Any) -> Any:
        """Return the value with all bits inverted; the next member of an enumeration."""
        if isinstance(value, enum.Enum):
            members = list(type(value))
            return members[(members.index(value) + 1) % len(members)]
        return ~Value.cast(value)

    @staticmethod
    def negated(value: Any) -> Any:
        """Return that no bit is set."""
        return ~Value.cast(value).bool()


def _functions(tree: ast.AST, prefix: str = "") -> Iterable[tuple[str, ast.FunctionDef]]:
    """Yield functions of a module and of its classes, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _makes_hardware(function: ast.FunctionDef) -> bool:
    args = (*function.args.args, *function.args.kwonlyargs)
    types = {ast.unparse(arg.annotation) for arg in args if arg.annotation is not None}
    return function.name in ("elaborate", "__init__") or bool(types & _HARDWARE)


@cache
def sites_of(file: str) -> tuple[Site, ...]:
    """Return all sites of a file, in order of its source."""
    text = (ROOT / file).read_text()
    lines = text.splitlines()
    found: list[Site] = []
    for name, function in _functions(ast.parse(text)):
        if not _makes_hardware(function):
            continue
        printed = set()
        for n, slot in enumerate(slots(function, inits_only=function.name == "__init__")):
            line = getattr(slot.node, "lineno", function.lineno)
            for choice, (change, _) in enumerate(changes(slot, function)):
                site = Site(file, name, n, choice, line, lines[line - 1].strip(), change)
                if (line, change) not in printed and site.change.count(" => ") == 1:
                    before, after = site.change.split(" => ")
                    if before != after:
                        found.append(site)
                printed.add((line, change))
    return tuple(found)


def draw(files: Iterable[str], number: int, seed: int) -> list[Site]:
    """Return sites in the order in which they are tried, at most ``number``.

    No line comes twice before every line came once.
    """
    rng = random.Random(f"{seed} {' '.join(files)}")
    of_line = defaultdict(list)
    for file in files:
        for site in sites_of(file):
            of_line[site.file, site.line].append(site)
    for line in of_line.values():
        rng.shuffle(line)
    drawn: list[Site] = []
    rounds = list(of_line.values())
    while rounds and len(drawn) < number:
        rng.shuffle(rounds)
        drawn += [line.pop() for line in rounds]
        rounds = [line for line in rounds if line]
    return drawn[:number]


def _codes(code: CodeType) -> Iterable[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def changed_code(site: Site) -> CodeType:
    """Return the code of the function with the change made."""
    path = ROOT / site.file
    tree = ast.parse(path.read_text())
    function = dict(_functions(tree))[site.function]
    slot = slots(function, inits_only=function.name == "__init__")[site.slot]
    change, node = changes(slot, function)[site.choice]
    if change != site.change:
        raise ValueError(f"{site.name}: the file has changed since")
    if traced(slot.node):
        node = reach(node)
    slot.put(node)
    # Also the code of functions inside it counts rounds anew with each call of the outer one.
    function.body.insert(0, ast.parse(f"{FIRST} = {HELPERS}.first()").body[0])
    module = compile(ast.fix_missing_locations(tree), str(path), "exec")
    return next(code for code in _codes(module) if code.co_qualname == site.function)


def module_of(file: str) -> str:
    """Return the name under which a file of the tree is imported."""
    path = Path(file).with_suffix("")
    campaign = path.parts[:2] == ("tb", "campaigns")
    return ".".join(path.parts[2:] if campaign else ("celosia", *path.parts))


class Changed:
    """While it is entered, the gateware in memory has the change of a site.

    ``site``: site.
    ``module``: name of the module; ``traced``: ``Helpers`` notes when the change is elaborated.
    """

    def __init__(self, site: Site) -> None:
        self.module = module_of(site.file)
        self._path = site.function.split(".")
        self._code = changed_code(site)
        self.traced = "reach" in {name for code in _codes(self._code) for name in code.co_names}
        self._right: list[tuple[FunctionType, CodeType]] = []
        self._known: set[int] = set()

    def __enter__(self) -> "Changed":
        Helpers.reached = False
        self.change(vars(import_module(self.module)))
        return self

    def __exit__(self, *_: object) -> None:
        for function, code in self._right:
            function.__code__ = code
        self._right.clear()
        self._known.clear()

    def change(self, names: dict[str, Any]) -> None:
        """Change the function among the names of a module, of which there may be several."""
        if id(names) in self._known:
            return
        self._known.add(id(names))
        holder: Any = names
        for name in self._path:
            holder = (holder if isinstance(holder, dict) else vars(holder))[name]
        for wrapper in ("__func__", "fget", "__wrapped__"):
            holder = getattr(holder, wrapper, holder)
        self._right.append((holder, holder.__code__))
        holder.__code__ = self._code
        names[HELPERS] = Helpers

    def raised(self, traceback: Any) -> bool:
        """Return True if an exception came from the changed function."""
        codes = set(_codes(self._code))
        while traceback is not None:
            if traceback.tb_frame.f_code in codes:
                return True
            traceback = traceback.tb_next
        return False
