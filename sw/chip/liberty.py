"""Cell libraries in the Liberty format: areas, functions, capacitances and energies of cells."""

import ast
import gzip
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

_TOKEN = re.compile(r'"([^"]*)"|([^\s"{}():;,]+)|([{}():;])')
_APART = re.compile(r"(?s)/\*.*?\*/|\\\s*\n")
#: Most inputs of a gate: so many bits address its truth table.
INPUTS = 6
#: Transition time of inputs, as a part of the longest that the library allows.
_SLEW = 0.1
_FEMTO = {"ff": 1.0, "pf": 1e3}
_NANOWATTS = {"pw": 1e-3, "nw": 1.0, "uw": 1e3, "mw": 1e6}


class Group(NamedTuple):
    """Group of a Liberty file: its kind, arguments, attributes, and the groups in it."""

    kind: str
    names: list[str]
    values: dict[str, list[str]]
    groups: list["Group"]

    def all(self, *kinds: str) -> Iterator["Group"]:
        """Yield the groups of some kinds."""
        return (group for group in self.groups if group.kind in kinds)

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute."""
        return (self.values.get(name) or [default])[0]

    def number(self, name: str) -> float:
        """Return an attribute that is a number; 0 if there is none."""
        return float(self.text(name, "0"))


def parse(text: str) -> Group:
    """Return the library of a file; raises ValueError for another file."""
    tokens = [match.groups() for match in _TOKEN.finditer(_APART.sub(" ", text))]
    words = [sign or (string if word is None else word) for string, word, sign in tokens]
    signs = [*(sign for _, _, sign in tokens), ")", None]
    stack, n = [Group("", [], {}, [])], 0
    while n < len(words):
        name, end = words[n], n + 1
        if signs[n] == "}":
            stack = stack[:-1] or stack
        elif signs[end] == ":":
            stack[-1].values[name] = words[end + 1 : end + 2]
            end += 2
        elif signs[end] == "(":
            close = signs.index(")", end)
            arguments, end = words[end + 1 : close], close + 1
            if signs[end] == "{":
                stack[-1].groups.append(Group(name, arguments, {}, []))
                stack.append(stack[-1].groups[-1])
                end += 1
            else:
                stack[-1].values[name] = arguments
        n = end
    for library in stack[0].all("library"):
        return library
    raise ValueError("wanted a library in the Liberty format")


def _table(group: Group, template: Group, slew: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the loads and the energies of a table at a transition time of the input."""
    values = np.array([float(x) for row in group.values["values"] for x in row.split(",")])
    texts = [group.text(name) or template.text(name) for name in ("index_1", "index_2")]
    indices = [np.array([float(x) for x in text.split(",")]) for text in texts if text]
    if not indices or len(values) == 1:
        return np.zeros(1), values[:1]
    if len(indices) == 1:
        return np.zeros(1), np.interp([slew], indices[0], values)
    rows = values.reshape(len(indices[0]), len(indices[1]))
    return indices[1], np.array([np.interp(slew, indices[0], column) for column in rows.T])


class Pin(NamedTuple):
    """Pin of a cell: capacitance in fF, function if it is an output, tables of its energies."""

    capacitance: float
    function: str | None
    tables: list[tuple[np.ndarray, np.ndarray]]

    def energy(self, load: np.ndarray) -> np.ndarray:
        """Return the mean energy of a change of the pin, in the library's unit, at some loads."""
        return sum((np.interp(load, *table) for table in self.tables), np.zeros_like(load)) / max(
            1, len(self.tables)
        )


class Cell(NamedTuple):
    """Cell of a library.

    ``register``: of a flip-flop the pins of data and clock and the name of its state;
    ``words``, ``bits``: of a memory.
    """

    area: float
    pins: dict[str, Pin]
    leakage: float
    register: tuple[str, str, str] | None
    has_state: bool
    words: int
    bits: int

    def table(self, output: str) -> tuple[list[str], int]:
        """Return the inputs of a gate and the truth table of an output, as its bits.

        Raises ValueError if the function cannot be read.
        """
        inputs = [name for name, pin in self.pins.items() if pin.function is None]
        if len(inputs) > INPUTS:
            raise ValueError(f"{output}: wanted at most {INPUTS} inputs, got {len(inputs)}")
        size = 1 << (1 << INPUTS)
        columns = {
            name: sum(1 << row for row in range(1 << INPUTS) if row >> n & 1)
            for n, name in enumerate(inputs)
        }
        text = re.sub(r"(\w+|\([^()]*\))'", r"(~\1)", self.pins[output].function or "")
        text = text.replace("!", "~").replace("*", "&").replace("+", "|")
        return inputs, _value(ast.parse(text.strip(), mode="eval").body, columns) % size


def _value(node: ast.AST, columns: dict[str, int]) -> int:
    match node:
        case ast.Name(name) if name in columns:
            return columns[name]
        case ast.Constant(int(bit)):
            return -bit
        case ast.UnaryOp(ast.Invert(), operand):
            return ~_value(operand, columns)
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.BitXor() as operator, right):
            pair = _value(left, columns), _value(right, columns)
            if isinstance(operator, ast.BitAnd):
                return pair[0] & pair[1]
            return pair[0] | pair[1] if isinstance(operator, ast.BitOr) else pair[0] ^ pair[1]
    raise ValueError(f"function: wanted names, !, &, | and ^, got {ast.unparse(node)}")


class Library:
    """Cells of a Liberty file, ``.lib`` or ``.lib.gz``.

    ``volts``: supply; energies are in fJ, leakage in nW, areas in µm².
    Raises OSError if the file cannot be read, ValueError if it is no library.
    """

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        try:
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            self.group = parse(content.decode("utf-8", "replace"))
        except (ValueError, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: {error}") from None
        self.content = content
        self._templates = {one.names[0]: one for one in self.group.all("power_lut_template")}
        self.path = path
        scale, unit = (self.group.values.get("capacitive_load_unit") or ["1", "pf"])[:2]
        self._femto = float(scale) * _FEMTO[unit.lower()]
        conditions = next(self.group.all("operating_conditions"), self.group)
        self.volts = conditions.number("voltage") or self.group.number("nom_voltage")

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Cells by name."""
        return {group.names[0]: self._cell(group) for group in self.group.all("cell")}

    @cached_property
    def nand(self) -> Cell:
        """Smallest gate that inverts the conjunction of two inputs; raises ValueError if none."""
        return self.cells[self._smallest(2, "a NAND of two inputs")]

    @cached_property
    def inverter(self) -> str:
        """Name of the smallest inverter; raises ValueError if there is none."""
        return self._smallest(1, "an inverter")

    def _smallest(self, inputs: int, title: str) -> str:
        gates = [name for name, cell in self.cells.items() if _is_nand(cell, inputs)]
        if not gates:
            raise ValueError(f"{self.path}: wanted {title}, found none")
        return min(gates, key=lambda name: self.cells[name].area)

    def _cell(self, group: Group) -> Cell:
        powers = [leak.number("value") for leak in group.all("leakage_power")]
        mean = sum(powers) / len(powers) if powers else 0.0
        unit = re.sub(r"[\d.\s]", "", self.group.text("leakage_power_unit", "1nW")).lower()
        state = next(group.all("ff"), None)
        memory = next(group.all("memory"), None)
        return Cell(
            group.number("area"),
            {name: self._pin(pin) for pin in group.all("pin", "bus") for name in pin.names},
            (group.number("cell_leakage_power") or mean) * _NANOWATTS[unit],
            (state.text("next_state").strip(), state.text("clocked_on").strip(), state.names[0])
            if state
            else None,
            any(group.all("ff", "ff_bank", "latch", "latch_bank", "statetable", "memory")),
            1 << int(memory.number("address_width")) if memory else 0,
            int(memory.number("word_width")) if memory else 0,
        )

    def _pin(self, pin: Group) -> Pin:
        is_output = pin.text("direction") == "output"
        slew = _SLEW * self.group.number("default_max_transition")
        tables = []
        for power in pin.all("internal_power"):
            for table in power.all("power", "rise_power", "fall_power"):
                template = self._templates.get(table.names[0], table)
                loads, energies = _table(table, template, slew)
                tables.append((loads * self._femto, energies * self._femto))
        function = pin.text("function") if is_output else None
        return Pin(pin.number("capacitance") * self._femto, function, tables)


def _is_nand(cell: Cell, inputs: int) -> bool:
    outputs = [name for name, pin in cell.pins.items() if pin.function]
    if len(outputs) != 1 or len(cell.pins) != inputs + 1 or cell.has_state:
        return False
    ones = (1 << inputs) - 1
    rows = sum(1 << n for n in range(1 << INPUTS) if n & ones != ones)
    return cell.table(outputs[0])[1] == rows
