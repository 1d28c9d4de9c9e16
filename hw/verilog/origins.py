"""Verilog of a component with marks in its branches, and the Python lines that it comes from."""

from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.lib.wiring import Component

import celosia.hw
from celosia.hw.verilog.build import TOP
from celosia.hw.verilog.conversion import run_yosys
from celosia.hw.verilog.emitter import Elaborated, Emitter, with_parts
from celosia.hw.verilog.sources import HELPERS

#: Passes with a block for each process: a simulator counts its branches.
PASSES = (
    *("proc -nomux -norom", "memory_collect", "delete */s:0", "attrmap -remove full_case"),
    "write_verilog",
)

#: Name of the mark of a branch, before its number.
_MARK = "branch$"
#: Words that a declaration begins with.
_DECLARING = ("wire", "reg", "input", "output", "inout")
_INPUT = "input"
_GATEWARE = Path(celosia.hw.__file__).parent


class Bits(NamedTuple):
    """A signal, or a field of one: where it is declared, as ``file:line``, and its name.

    It is ``width`` bits of the signal from ``low`` on; ``constant`` is a mask of its bits.
    """

    place: str
    name: str
    low: int
    width: int
    constant: int


class Origins(NamedTuple):
    """Meaning of the lines of a Verilog text, from 1.

    ``branches`` has for a line in a branch the places, ``file:line``, of its condition and of the
    statements that it alone decides about; ``signals`` what a line declares, field by field.
    """

    branches: dict[int, tuple[str, ...]]
    signals: dict[int, tuple[Bits, ...]]


class _Marks:
    """Places of each branch and the netlist, collected while modules are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.branches: list[tuple[str, ...]] = []
        self.netlist: Any = None

    def place(self, source: Any) -> str | None:
        """Return ``file:line`` of a source as Amaranth writes it, None outside the folder."""
        if source is None or not Path(source[0]).is_relative_to(self.folder):
            return None
        return f"{Path(source[0]).relative_to(self.folder.parent)}:{source[1]}"


class _Marking(Emitter):
    """Writer of a module as its base, with a mark in each branch that has a source line.

    A mark is an assignment to a new wire that nobody reads.
    """

    marks = _Marks(_GATEWARE)

    def emit(self) -> None:
        self.marks.netlist = self.netlist
        super().emit()

    def emit_assignment_list(self, cell_idx: int, cell: Any) -> None:
        """Write the process of one signal; the marks' wires come before it."""
        super().emit_assignment_list(cell_idx, cell)
        items = self.builder.contents
        process = next(reversed(items.values()))
        # The first assignment is the default.
        statements = deque([None, *cell.assignments])
        self._walk(process, 1, statements)
        assert not statements
        items[process.name] = items.pop(process.name)

    def _walk(self, case: Any, condition: int, statements: deque[Any]) -> list[Any]:
        """Mark all branches inside a case; return where the statements right in it come from."""
        places = []
        for item in case.contents:
            if isinstance(item, rtlil.Switch):
                self._switch(item, condition, statements)
            elif (statement := statements.popleft()) is not None:
                places.append(statement.src_loc)
        return places

    def _switch(self, switch: Any, condition: int, statements: deque[Any]) -> None:
        number = self._decided(statements[0].cond, condition)
        cases = iter(switch.cases)
        for bit, net in enumerate(self.netlist.cells[number].inputs):
            here = type(net).from_cell(number, bit)
            match = None if net.is_const else self.netlist.cells[net.cell]
            if match and not match.patterns:
                # A case that nothing matches is left out.
                while statements and self._within(statements[0].cond, here):
                    statements.popleft()
                continue
            case = next(cases)
            places = self._walk(case, here, statements)
            opening = self.marks.place(match.src_loc) if match else None
            # Resets are no branches of the source, nor are cases that leave a signal alone.
            if case.contents and (opening or not match):
                self._mark(case, {opening, *map(self.marks.place, places)} - {None})

    def _decided(self, net: Any, condition: int) -> int:
        """Return the cell that decides about ``net`` where ``condition`` holds."""
        while self.netlist.cells[net.cell].en != condition:
            net = self.netlist.cells[net.cell].en
        return net.cell

    def _within(self, net: Any, condition: int) -> bool:
        while not net.is_const and net != condition:
            net = self.netlist.cells[net.cell].en
        return net == condition

    def _mark(self, case: Any, places: Collection[Any]) -> None:
        if places:
            wire = self.builder.wire(1, name=f"{_MARK}{len(self.marks.branches)}")
            case.contents.insert(0, rtlil.Assignment(wire.name, "1'1"))
            self.marks.branches.append(tuple(sorted(places)))


class _Constants:
    """Nets that can never change: registers that nothing writes, values that all agree."""

    def __init__(self, netlist: Any) -> None:
        self._netlist = netlist
        self._known: dict[int, int | None] = {}

    def value(self, net: Any) -> int | None:
        """Return what a net always is; None where that is not seen."""
        if net.is_const:
            return net.const
        if net not in self._known:
            # A loop ends here: it is not seen.
            self._known[net] = None
            self._known[net] = self._agreed(net)
        return self._known[net]

    def _agreed(self, net: Any) -> int | None:
        cell = self._netlist.cells[net.cell]
        match type(cell).__name__:
            case "FlipFlop":
                values = self._choices(cell.data[net.bit], net) | {cell.init >> net.bit & 1}
            case "AssignmentList":
                values = self._choices(net, net)
            case _:
                return None
        return values.pop() if len(values) == 1 else None

    def _choices(self, net: Any, held: Any) -> set[int | None]:
        """Return the values that a process may give a net, but for keeping ``held``."""
        cell: Any = None if net.is_const else self._netlist.cells[net.cell]
        if type(cell).__name__ != "AssignmentList":
            return set() if net == held else {self.value(net)}
        values = [cell.default[net.bit]]
        for one in cell.assignments:
            if one.start <= net.bit < one.start + len(one.value):
                values = [] if one.cond == 1 else values
                values.append(one.value[net.bit - one.start])
        return {self.value(one) for one in values if one != held}


def _slice(value: Any, signal: Any) -> tuple[int, int] | None:
    """Return where a part of a signal begins, and its width; None where it is something else."""
    low, part = 0, value
    while part is not signal:
        match type(part).__name__:
            case "Slice":
                low, part = low + part.start, part.value
            case "Operator" if part.operator in ("s", "u"):
                (part,) = part.operands
            case _:
                return None
    return low, len(value)


def _fields(signal: Any) -> dict[str, tuple[int, int]]:
    """Return the smallest fields of a signal, each with its lowest bit and width, by their path."""
    slices: dict[str, tuple[int, int] | None] = {}

    def add(path: str, shape: Any) -> None:
        inner = getattr(shape, "_fields", None)
        if inner is not None:
            names = inner.items() if isinstance(inner, dict) else enumerate(inner)
            for name, field in names:
                add(f"{path}.{name}", field)
            return
        values = (
            [shape._value]
            if hasattr(shape, "_value")
            else [chunk[0] for chunk in shape._chunks if not isinstance(chunk, str)]
        )
        slices[path] = _slice(values[0], signal) if len(values) == 1 else None

    add("", signal._format)
    parts = {path: part for path, part in slices.items() if part}
    # Fields that overlap, or leave bits out, are no fields here.
    covers = sum(width for _, width in parts.values()) == len(signal)
    return parts if covers and len(parts) == len(slices) else {"": (0, len(signal))}


def _signals(marks: _Marks) -> dict[tuple[str, str], tuple[Bits, ...]]:
    """Return all signals of the folder that something inside drives, by module and name.

    A signal has a wire in each module that it passes; here is the one in the module that drives it.
    """
    homes: dict[int, tuple[int, Any, Any, str]] = {}
    for module in marks.netlist.modules:
        for signal, name in module.signal_names.items():
            _, flow = module.ports.get(name, (None, None))
            depth = len(module.name)
            known = homes.get(id(signal))
            if (flow is None or flow.value != _INPUT) and (known is None or known[0] < depth):
                homes[id(signal)] = depth, module, signal, name
    marked, constants = {}, _Constants(marks.netlist)
    for _, module, signal, name in homes.values():
        place = marks.place(signal.src_loc)
        if place is None or place.partition(":")[0] in HELPERS:
            place = marks.place(module.src_loc)
        if place and len(signal):
            nets = enumerate(marks.netlist.signals[signal])
            constant = sum((constants.value(net) is not None) << bit for bit, net in nets)
            head, _, number = name.rpartition("$")
            plain = head if number.isdigit() else name
            marked[".".join(module.name), name] = tuple(
                Bits(place, plain + path, low, width, constant >> low & (1 << width) - 1)
                for path, (low, width) in _fields(signal).items()
            )
    return marked


def _read(text: str, marks: _Marks) -> tuple[str, Origins]:
    """Return what the lines of a text stand for; Verilator looks at no other signals."""
    known = _signals(marks)
    origins = Origins({}, {})
    path, lines = "", text.split("\n")
    for n, line in enumerate(lines):
        first, *words = line.split() or [""]
        if first == "module":
            path = words[0].partition("(")[0].removeprefix("\\")
        elif first.startswith(f"\\{_MARK}") and words == ["=", "1'h1;"]:
            origins.branches[n + 1] = marks.branches[int(first.rpartition("$")[2])]
        elif first in _DECLARING:
            name = next(word for word in words if word != "signed" and word[0] != "[")
            if bits := known.get((path, name.rstrip(";").removeprefix("\\"))):
                origins.signals[n + 1] = bits
            else:
                lines[n] = f"/*verilator coverage_off*/{line}/*verilator coverage_on*/"
    return "\n".join(lines), origins


def convert_with_origins(
    component: Component, *, name: str = TOP, folder: Path = _GATEWARE
) -> tuple[str, Origins]:
    """Return the Verilog of a component for a simulator that counts, and what its lines stand for.

    It is that of ``convert`` with a mark in each branch, so that branches can be found again
    whatever Yosys makes of conditions.

    Parameters
    ----------
    component : Component
        What is written. Signals that are inputs of it have no origin.
    name : str
        Of the top module.
    folder : Path
        Sources outside are left out: libraries, and who instantiates the component.
    """
    marks = _Marks(folder)
    marking = type("Marking", (_Marking,), {"marks": marks})
    _, (*parts, top) = with_parts(Elaborated(component, name))
    texts = [part.rtlil(has_sources=False) for part in parts]
    texts.append(top.rtlil(marking, has_sources=False))
    return _read(run_yosys("".join(texts), PASSES), marks)
