"""Operators of a netlist as expressions of Verilog.

Verilog extends operands to the widest of an expression, and an expression is signed if all of its
operands are. So operands get the width of their result here, by explicit zeros or copies of the
sign: then an expression means the same wherever it is written. What depends on its surroundings all
the same stands in braces.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from celosia.hw.verilog.names import constant
from celosia.hw.verilog.netlist import Bits, Cell

_BINARY = {
    **{"$add": "+", "$sub": "-", "$and": "&", "$or": "|", "$xor": "^", "$xnor": "~^"},
    **{"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="},
    **{"$logic_and": "&&", "$logic_or": "||", "$shl": "<<", "$shr": ">>"},
}
_UNARY = {
    **{"$not": "~", "$neg": "-", "$logic_not": "!"},
    **{"$reduce_or": "|", "$reduce_bool": "|", "$reduce_and": "&", "$reduce_xor": "^"},
}
_COMPARISONS = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge")
_ORDERS = ("$lt", "$le", "$gt", "$ge")
_BITS = (*_COMPARISONS, *(kind for kind in _UNARY if kind not in ("$not", "$neg")))
_SHIFTS = ("$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx")
#: Operators whose low bits depend on the low bits of their operands alone.
_LOW = ("$add", "$sub", "$mul", "$neg", "$and", "$or", "$xor", "$xnor", "$not", "$mux", "$pmux")
_WIDENED = (*_LOW[:2], *_LOW[3:9])

#: All kinds of cells that are expressions.
OPERATORS = frozenset((*_BINARY, *_UNARY, *_SHIFTS, "$mul", "$mux", "$pmux"))


class Text(NamedTuple):
    """An expression.

    ``operator`` is its outermost one, empty for a signal or a call; ``is_whole`` is False if it
    means something else inside another expression.
    """

    text: str
    operator: str = ""
    is_whole: bool = True

    def inside(self, operator: str) -> str:
        """Return the text as an operand, with the parentheses that it needs."""
        plain = not self.operator or (self.operator in "~!" and operator != "unary")
        same = operator == self.operator and operator in ("&", "|", "^")
        return self.text if plain or same else f"({self.text})"


def _extended(bits: Bits, width: int, *, signed: bool) -> Bits:
    return bits[:width] + (bits[-1:] if signed and bits else ("0",)) * (width - len(bits))


def normalise(cell: Cell, used: Callable[[Bits], int], fresh: Callable[[int], Bits]) -> None:
    """Give the operands of an operator the width that its result has.

    Parameters
    ----------
    cell : Cell
        Operator.
    used : function of Bits
        Returns how many of the low bits of its result are read.
    fresh : function of int
        Returns so many new bits.
    """
    kind, ports = cell.kind, cell.ports
    a_signed, b_signed = bool(cell.number("A_SIGNED")), bool(cell.number("B_SIGNED"))
    signed = a_signed and (b_signed or "B" not in ports)
    # Verilog has no signals of no bits.
    for port in cell.ports.keys() - cell.outputs:
        ports[port] = ports[port] or ("1" if kind == "$reduce_and" else "0",)
    if kind in _LOW or kind in ("$shl", "$sshl"):
        width = max(1, used(ports["Y"]))
        if kind == "$pmux":
            choice = len(ports["Y"])
            parts = (ports["B"][n : n + width] for n in range(0, len(ports["B"]), choice))
            ports["B"] = tuple(bit for part in parts for bit in part)
            ports["A"] = ports["A"][:width]
        ports["Y"] = ports["Y"][:width]
        if kind in _WIDENED:
            for port in ("A", "B"):
                if port in ports:
                    ports[port] = _extended(ports[port], width, signed=signed)
        elif kind in ("$mux", "$mul"):
            ports["A"], ports["B"] = ports["A"][:width], ports["B"][:width]
    if kind in _COMPARISONS:
        width = max(len(ports["A"]), len(ports["B"]))
        for port in ("A", "B"):
            ports[port] = _extended(ports[port], width, signed=signed)
    elif kind in _SHIFTS:
        if kind in ("$shift", "$shiftx") and b_signed:
            raise NotImplementedError(f"{cell.name}: {kind} by a signed number")
        kind = {"$sshl": "$shl", "$shift": "$shr", "$shiftx": "$shr"}.get(kind, kind)
        width = len(ports["Y"])
        if kind != "$shl":
            width = max(width, len(ports["A"]))
            ports["Y"] += fresh(width - len(ports["Y"]))
        ports["A"] = _extended(ports["A"], width, signed=a_signed)
        cell.kind = kind if kind != "$sshr" or a_signed else "$shr"


def function_of(cell: Cell) -> tuple[int, int]:
    """Return the choices and the bits of the function that a multiplexer of many inputs is."""
    return len(cell.ports["S"]), len(cell.ports["Y"])


def functions(shapes: Iterable[tuple[int, int]]) -> list[str]:
    """Return the lines of functions of these shapes: the choice whose select is one, or ``_a_``."""
    lines: list[str] = []
    for count, width in sorted(set(shapes)):
        name = f"select_{count}_{width}"
        lines += [
            f"  function [{width - 1}:0] {name};",
            f"    input [{width - 1}:0] _a_; input [{count * width - 1}:0] _b_;"
            f" input [{count - 1}:0] _s_;",
            "    (* parallel_case *)",
            "    casez (_s_)",
        ]
        for n in range(count):
            pattern = "?" * (count - 1 - n) + "1" + "?" * n
            lines.append(
                f"      {count}'b{pattern}: {name} = _b_[{(n + 1) * width - 1}:{n * width}];"
            )
        lines += [f"      default: {name} = _a_;", "    endcase", "  endfunction"]
    return lines


def expression(cell: Cell, read: Callable[[Bits], Text]) -> Text:
    """Return the expression of an operator whose operands are normalised.

    ``read`` returns the text of a signal.
    """
    ports, kind = cell.ports, cell.kind
    signed = cell.number("A_SIGNED") and cell.number("B_SIGNED")

    def operand(port: str, operator: str) -> str:
        return read(ports[port]).inside(operator)

    def binary(operator: str) -> Text:
        a, b = (operand(port, operator) for port in "AB")
        return Text(f"{a} {operator} {b}", operator)

    if kind == "$mux":
        a = read(ports["A"])
        otherwise = a.text if a.operator == "?" else a.inside("?")
        text = Text(f"{operand('S', '?')} ? {operand('B', '?')} : {otherwise}", "?")
    elif kind == "$pmux":
        count, width = function_of(cell)
        inputs = ", ".join(read(ports[port]).text for port in "ABS")
        text = Text(f"select_{count}_{width}({inputs})")
    elif kind == "$mul":
        a, b = (read(ports[port]) for port in "AB")
        if signed:
            text = Text(f"$signed({a.text}) * $signed({b.text})", "*", is_whole=False)
        else:
            # The product would extend its operands.
            a, b = (f"{{ {t.text} }}" if t.operator else t.text for t in (a, b))
            text = Text(f"{a} * {b}", "*", is_whole=False)
    elif kind == "$sshr":
        a = f"$signed({read(ports['A']).text})"
        text = Text(f"{a} >>> {operand('B', '>>>')}", ">>>", is_whole=False)
    elif kind in _ORDERS and signed:
        a, b = (f"$signed({read(ports[port]).text})" for port in "AB")
        text = Text(f"{a} {_BINARY[kind]} {b}", _BINARY[kind])
    elif kind == "$logic_not" and len(ports["A"]) > 1:
        text = Text(f"{operand('A', '==')} == {constant('0' * len(ports['A']))}", "==")
    elif kind in _BINARY:
        text = binary(_BINARY[kind])
    else:
        sign = _UNARY[kind]
        name = "unary" if sign in "&|^" else sign
        text = Text(f"{sign}{operand('A', 'unary')}", name)
    if kind in _BITS and len(ports["Y"]) > 1:
        text = Text(f"{{{len(ports['Y']) - 1}'h0, {text.text}}}")
    return text
