"""Possible changes in the source of a component: expressions, conditions, assignments.

A change is made in the syntax tree of a function and has no other effect. It never touches code
that decides the shape of a circuit instead of its function: widths, names, loops and tests of
Python.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Names of ``Helpers`` in changed code, and of the flag of a first round.
HELPERS = "_helpers_"
FIRST = "_first_"

_SWAPPED: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
}
#: Operators of which one side may be left out; True if that may be the left one.
_DROPPED: dict[type, bool] = {
    ast.Add: True,
    ast.Sub: False,
    ast.BitAnd: True,
    ast.BitOr: True,
    ast.BitXor: True,
    ast.LShift: False,
    ast.RShift: False,
}
_COMPARED: dict[type, tuple[type, ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
_METHODS = {"any": "all", "all": "any", "xor": "any"}
_SIGNED = ("as_signed", "as_unsigned")
#: Calls whose arguments are shapes or names; of the first ones, only ``init`` is changed.
_SIGNALS = ("Signal", "Signal.like")
_SHAPES = (
    *("unsigned", "signed", "range", "len", "enumerate", "isinstance", "reset_less"),
    *("data.ArrayLayout", "data.StructLayout", "data.UnionLayout"),
)
_NO_KEYWORDS = ("name", "shape", "attrs", "strict", "reset_less", "width")


@dataclass(frozen=True)
class Slot:
    """Slot in a tree that holds an expression or a statement."""

    parent: ast.AST
    field: str
    index: int | None
    repeated: bool

    @property
    def node(self) -> ast.AST:
        """Source of the slot's node."""
        held = getattr(self.parent, self.field)
        return held if self.index is None else held[self.index]

    def put(self, node: ast.AST) -> None:
        """Replace the node."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def dotted(node: ast.AST) -> str:
    """Return ``a.b`` for a name or an attribute of names, else an empty string."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield field, index, child


def _kept(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """Return True if a child of a node may be changed."""
    if isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import):
        return False
    if isinstance(parent, ast.If | ast.IfExp | ast.While) and field == "test":
        return False
    if isinstance(parent, ast.For) and field in ("iter", "target"):
        return False
    if isinstance(parent, ast.comprehension):
        return False
    if isinstance(parent, ast.FunctionDef | ast.AnnAssign | ast.Assign | ast.AugAssign):
        if field in ("args", "decorator_list", "returns", "annotation", "target", "targets"):
            return False
    if isinstance(parent, ast.Expr) and isinstance(child, ast.Constant):
        return False
    if isinstance(parent, ast.keyword):
        return parent.arg not in _NO_KEYWORDS
    if isinstance(parent, ast.Call):
        name = dotted(parent.func)
        if name in _SIGNALS:
            return isinstance(child, ast.keyword) and child.arg == "init"
        if name == "Const" and field == "args":
            return child is parent.args[0]
        return name not in _SHAPES and getattr(parent.func, "attr", "") != "replicate"
    return True


def slots(function: ast.FunctionDef, *, inits_only: bool = False) -> list[Slot]:
    """Return the slots of a function that can be changed, in order of its source.

    ``function``: syntax tree of the function; ``inits_only``: only those of initial values of
    ports, in ``__init__``.
    """
    found: list[Slot] = []

    def visit(node: ast.AST, repeated: bool, within: bool) -> None:
        again = isinstance(node, ast.For | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        for field, index, child in _children(node):
            if inits_only or _kept(node, field, child):
                inside = within or (isinstance(child, ast.keyword) and child.arg == "init")
                if inside or not inits_only:
                    found.append(Slot(node, field, index, repeated or again))
                visit(child, repeated or again, inside)

    visit(function, False, False)
    return found


def _help(name: str, *args: ast.expr) -> ast.expr:
    """Return a call of a helper at run time."""
    function = ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), [])


def _call(call: ast.Call, *args: ast.expr) -> ast.expr:
    return ast.Call(call.func, list(args), call.keywords)


def _number(value: int) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _operations(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    for other in _SWAPPED.get(type(node.op), ()):
        yield "", ast.BinOp(node.left, other(), node.right)
    if type(node.op) in _DROPPED:
        yield "", node.left
        if _DROPPED[type(node.op)]:
            yield "", node.right


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    if len(node.ops) == 1:
        for other in _COMPARED.get(type(node.ops[0]), ()):
            yield "", ast.Compare(node.left, [other()], node.comparators)


def _assignments(node: ast.Call, function: ast.Attribute) -> Iterator[tuple[str, ast.expr]]:
    yield "left out", ast.List([], ast.Load())
    (value,) = node.args
    if isinstance(value, ast.Constant):
        if value.value not in (0, 1):
            yield "", _call(node, ast.Constant(0))
        else:
            yield "", _call(node, ast.Constant(1 - value.value))
        return
    yield "gets 0", _call(node, _help("zero", value))
    if not isinstance(value, ast.UnaryOp):
        yield "gets its inverse", _call(node, _help("inverse", value))


def _conditions(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    (value,) = node.args
    yield "condition negated", _call(node, _help("negated", value))
    yield "always", _call(node, ast.Constant(1))
    yield "never", _call(node, ast.Constant(0))


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    function, name, args = node.func, dotted(node.func), node.args
    plain = not any(isinstance(arg, ast.Starred | ast.GeneratorExp) for arg in args)
    if name == "Mux" and len(args) == 3:
        yield "", _call(node, args[0], args[2], args[1])
        yield "", args[1]
        yield "", args[2]
    elif name == "Cat" and len(args) == 2 and plain:
        yield "", _call(node, args[1], args[0])
    elif name in ("m.If", "m.Elif"):
        yield from _conditions(node)
    elif name == "m.Case" and args:
        yield "never", _call(node)
    elif name == "wiring.connect":
        yield "left out", ast.Constant(None)
    elif isinstance(function, ast.Attribute) and len(args) == 1 and function.attr == "eq":
        yield from _assignments(node, function)
    elif isinstance(function, ast.Attribute) and not args and function.attr in _METHODS:
        other = ast.Attribute(function.value, _METHODS[function.attr], ast.Load())
        yield "", ast.Call(other, [], [])
    elif isinstance(function, ast.Attribute) and not args and function.attr in _SIGNED:
        yield "", function.value


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.expr]]:
    if type(node.value) is int:
        yield "", _number(node.value + 1)
        yield "", _number(node.value - 1)


def _slices(node: ast.Slice) -> Iterator[tuple[str, ast.expr]]:
    if node.upper is not None and not isinstance(node.upper, ast.Constant | ast.UnaryOp):
        less = ast.BinOp(node.upper, ast.Sub(), ast.Constant(1))
        yield "", ast.Slice(node.lower, less, node.step)


def _inversions(node: ast.UnaryOp) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.op, ast.Invert):
        yield "", node.operand


_KINDS: dict[type, Callable] = {
    ast.BinOp: _operations,
    ast.Compare: _comparisons,
    ast.Call: _calls,
    ast.Constant: _constants,
    ast.Slice: _slices,
    ast.UnaryOp: _inversions,
}


def _registers(function: ast.FunctionDef) -> set[str]:
    """Return names of signals that are assigned in the domain ``sync``."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and dotted(node.target) == "m.d.sync":
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "eq":
                    inner = [name.id for name in ast.walk(call.func) if isinstance(name, ast.Name)]
                    found.update(inner)
    return found


def _beginning(node: ast.AST, function: ast.FunctionDef) -> list[tuple[str, ast.AST]]:
    """Return a register whose initial and reset value is not 0."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return []
    call, name = node.value, dotted(node.targets[0])
    given = {keyword.arg for keyword in call.keywords} & {"init", "reset_less"}
    if dotted(call.func) not in _SIGNALS or given or name not in _registers(function):
        return []
    init = ast.keyword("init", ast.Constant(1))
    made = ast.Call(call.func, call.args, [*call.keywords, init])
    return [("begins at 1", ast.Assign(node.targets, made))]


def _next(node: ast.AST) -> str | None:
    """Return the state that ``m.next = "..."`` names."""
    if isinstance(node, ast.Assign) and dotted(node.targets[0]) == "m.next":
        return str(node.value.value) if isinstance(node.value, ast.Constant) else ""
    return None


def _states(function: ast.FunctionDef) -> list[str]:
    """Return the states that a function has or enters."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    named = [call.args[0] for call in calls if dotted(call.func) == "m.State"]
    return [str(name.value) for name in named if isinstance(name, ast.Constant)]


def changes(slot: Slot, function: ast.FunctionDef) -> list[tuple[str, ast.AST]]:
    """Return the replacements of a slot's node, each with its description.

    The description has the source before and after the change, without its layout.
    """
    node: Any = slot.node
    found: list[tuple[str, Any]] = []
    state = _next(node)
    if state is not None:
        found.append((f"{ast.unparse(node)} => left out", ast.Pass()))
        for other in _states(function):
            if other != state:
                goes = ast.Assign([ast.Name("x")], ast.Constant(other))
                goes.targets = node.targets  # pyright: ignore[reportAttributeAccessIssue]
                found.append((f"{ast.unparse(node)} => {other}", goes))
        return found
    for printed, other in (
        *_KINDS.get(type(node), lambda _: ())(node),
        *_beginning(node, function),
    ):
        what = printed or ast.unparse(other)
        found.append((f"{ast.unparse(node)} => {what}", other))
    if slot.repeated and traced(node):
        found += [
            (f"{what}, first round", ast.IfExp(_first(), other, node)) for what, other in found
        ]
    return found


def _first() -> ast.expr:
    return ast.Call(ast.Name(FIRST, ast.Load()), [], [])


def traced(node: ast.AST) -> bool:
    """Return True if ``reach`` can wrap the replacement of a node."""
    return isinstance(node, ast.expr) and not isinstance(node, ast.Slice)


def reach(node: ast.AST) -> ast.AST:
    """Return code that records its elaboration, only in the first round for the change itself."""
    assert isinstance(node, ast.expr)
    if isinstance(node, ast.IfExp):
        node.body = _help("reach", node.body)
        return node
    return _help("reach", node)
