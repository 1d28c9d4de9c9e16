"""Next values of registers as statements, those under one condition together."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Most characters of a line with a condition and a statement.
_LINE = 100


class Step(NamedTuple):
    """Next value of a register: under a condition, or ``value``.

    A register without a step keeps its value.
    """

    condition: str = ""
    then: "Step | None" = None
    otherwise: "Step | None" = None
    value: str = ""


def chosen(condition: str, then: Step | None, otherwise: Step | None) -> Step | None:
    """Return the step that a condition chooses; None if the register stays in both cases."""
    if then is None and otherwise is None:
        return None
    return Step(condition, then, otherwise)


def statements(steps: Iterable[tuple[str, Step | None]], indent: str = "    ") -> list[str]:
    """Return the lines of statements that change targets.

    Examples
    --------
    >>> go = Step("go", Step(value="1'h1"), None)
    >>> statements([("a", go), ("b", Step(value="a")), ("c", go)], "")
    ['b <= a;', 'if (go) begin', "  a <= 1'h1;", "  c <= 1'h1;", 'end']
    """
    lines: list[str] = []
    groups: dict[str, list[tuple[str, Step]]] = {}
    for target, step in steps:
        if step is None:
            continue
        if step.condition:
            groups.setdefault(step.condition, []).append((target, step))
        else:
            lines.append(f"{indent}{target} <= {step.value};")
    for condition, group in groups.items():
        then = [(target, step.then) for target, step in group]
        otherwise = [(target, step.otherwise) for target, step in group]
        if not any(step for _, step in then):
            condition, then, otherwise = f"!({condition})", otherwise, []
        has_else = any(step for _, step in otherwise)
        lines += _branch(f"{indent}if ({condition})", then, indent, has_else=has_else)
        if has_else:
            lines += _else(otherwise, indent)
    return lines


def _branch(
    head: str, steps: Sequence[tuple[str, Step | None]], indent: str, *, has_else: bool = False
) -> list[str]:
    """Return the lines of a branch after its head.

    ``has_else``: an ``else`` follows, which an ``if`` without ``begin`` would take for its own.
    """
    lines = statements(steps, indent + "  ")
    line = lines[0].strip()
    takes_else = has_else and line.startswith("if ")
    if len(lines) == 1 and " <= " in line and len(head) + len(line) < _LINE and not takes_else:
        return [f"{head} {line}"]
    return [f"{head} begin", *lines, f"{indent}end"]


def _else(steps: Sequence[tuple[str, Step | None]], indent: str) -> list[str]:
    """Return the lines of what follows if a condition does not hold."""
    conditions = {step.condition for _, step in steps if step}
    if len(conditions) == 1 and "" not in conditions:
        first, *following = statements(steps, indent)
        return [f"{indent}else {first.strip()}", *following]
    return _branch(f"{indent}else", steps, indent)
