"""Signals of a module as expressions, and the lines that define them.

An expression that is read once stands where it is read. Signals that have a name in the sources are
written with it, and with the line that declares them; others that are read more than once get a
number.
"""

from collections.abc import Mapping
from itertools import count, groupby

from celosia.hw.verilog.expressions import OPERATORS, Text, expression, function_of, normalise
from celosia.hw.verilog.lines import LINE, attributes_of, comment, wide
from celosia.hw.verilog.names import Names, identifier
from celosia.hw.verilog.netlist import Bits, Cell, Module, Net

#: Most characters of an expression inside another one.
_INSIDE = 72


def is_register(cell: Cell) -> bool:
    """Return True if a clock changes the result of a cell."""
    return cell.kind in ("$dff", "$adff") or (
        cell.kind == "$memrd_v2" and bool(cell.number("CLK_ENABLE"))
    )


class Signals:
    """Signals of a module.

    Parameters
    ----------
    module : Module
        Module. Its cells are changed.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._normalise()
        self.names = Names(module)
        self._drivers: dict[str, list[Cell]] = {}
        for cell in module.cells:
            for port in cell.outputs:
                home, _ = self.names.of[cell.ports[port][0]]
                self._drivers.setdefault(home.name, []).append(cell)
        registers = (cell for cell in module.cells if is_register(cell))
        self.registers = {self.names.of[cell.result[0]][0].name: cell for cell in registers}
        self.outputs = [p for p, way in module.ports.items() if way == "output"]
        self._count()
        #: Signals that are declared, and whether they are registers.
        self.sources: dict[str, tuple[Net, bool]] = {}
        self._texts: dict[Cell, Text] = {}
        self.written: list[str] = []
        self._done: dict[str, bool] = {}
        self.early: set[str] = set()
        self.shapes: set[tuple[int, int]] = set()

    def _normalise(self) -> None:
        """Give operands the widths of results, see ``expressions``."""
        module = self.module
        read = {bit for cell in module.cells for bits in cell.read() for bit in bits}
        for net in module.nets.values():
            if net.is_public:
                read.update(net.bits)
        bits = (bit for c in module.cells for p in c.ports.values() for bit in p)
        last = count(1 + max((b for b in (*bits, *read) if isinstance(b, int)), default=1))

        def used(result: Bits) -> int:
            return max((n + 1 for n, bit in enumerate(result) if bit in read), default=0)

        for cell in module.cells:
            if cell.kind in OPERATORS:
                normalise(cell, used, lambda width: tuple(next(last) for _ in range(width)))

    def _count(self) -> None:
        """Count how often each signal is read."""
        for cell in self.module.cells:
            for bits in cell.read():
                self.names.count(bits)
        for port in self.outputs:
            if port not in self.names.homes:
                self.names.count(self.module.nets[port].bits)
        for name in self._drivers:
            for _, bits in self._aliases(self.names.homes[name]):
                self.names.count(bits)

    def read(self, bits: Bits, defined: Net | None = None) -> Text:
        """Return a signal as text, expressions that are read once in their places."""
        inner: list[Text] = []

        def value(home: Net, is_whole: bool) -> str | None:
            text = self._inside(home) if is_whole else None
            if text is None:
                self.define(home)
                return None
            inner.append(text)
            return text.text

        text = self.names.text(bits, value, defined)
        if net := self.names.read.get(text.strip().removeprefix("\\")):
            self.define(net)
        return inner[0] if inner and text == inner[0].text else Text(text)

    def _inside(self, home: Net) -> Text | None:
        """Return the expression that a home stands for where it is read, if it is short."""
        cell = self.names.private.get(home.name)
        if cell is None or not self._is_expression(cell) or self.names.uses[home.name] > 1:
            return None
        text = self._text(cell)
        return text if text.is_whole and len(text.text) <= _INSIDE else None

    def _text(self, cell: Cell) -> Text:
        if cell not in self._texts:
            if not self._is_expression(cell):
                raise NotImplementedError(f"{self.module.name}: no Verilog for {cell.kind}")
            if cell.kind == "$pmux":
                self.shapes.add(function_of(cell))
            self._texts[cell] = (
                Text(self.word(cell)) if cell.kind == "$memrd_v2" else expression(cell, self.read)
            )
        return self._texts[cell]

    def define(self, net: Net) -> None:
        """Write the definition of a signal, after those of the signals that it reads."""
        name = net.name
        if name in self._done:
            if not self._done[name]:
                self.early.add(name)
            return
        self._done[name] = False
        if self.module.ports.get(name, "output") == "output" and name not in self.registers:
            cells = self._drivers.get(name, [])
            if not cells and name not in self.names.homes:
                self._assign(net, self.read(net.bits, net).text, net.attributes)
            elif len(cells) == 1 and self._is_whole(net, cells[0]):
                attributes = {**net.attributes, **cells[0].attributes}
                self._assign(net, self._text(cells[0]).text, attributes)
            else:
                self._parts(net, cells)
        self._done[name] = True

    def _is_whole(self, net: Net, cell: Cell) -> bool:
        """Return True if an expression drives all of a signal."""
        return self._is_expression(cell) and len(cell.result) == len(net.bits)

    @staticmethod
    def _is_expression(cell: Cell) -> bool:
        return cell.kind in OPERATORS or (cell.kind == "$memrd_v2" and not is_register(cell))

    def _parts(self, net: Net, cells: list[Cell]) -> None:
        """Write a signal that several operators, instances and signals drive."""
        parts = [
            (self.names.of[cell.result[0]][1], len(cell.result), self._text(cell).text, cell)
            for cell in cells
            if self._is_expression(cell)
        ]
        others = self._aliases(net)
        texts = [(low, len(bits), self.read(bits, net).text, None) for low, bits in others]
        parts = sorted([*parts, *texts], key=lambda part: part[0])
        size = sum(len(text) + 2 for _, _, text, _ in parts)
        is_all = sum(width for _, width, _, _ in parts) == len(net.bits)
        plain = all(cell is None or self._text(cell).is_whole for *_, cell in parts)
        if is_all and plain and net.name not in self.early and size <= LINE:
            text = ", ".join(text for _, _, text, _ in reversed(parts))
            self._assign(net, f"{{{text}}}", net.attributes)
            return
        self.early.add(net.name)
        for low, width, text, cell in parts:
            bits = f"{low + width - 1}:{low}" if width > 1 else f"{low}"
            target = identifier(net.name) + (f"[{bits}]" if width < len(net.bits) else "")
            self._line(f"assign {target} = {text};", cell.attributes if cell else {})

    def _aliases(self, net: Net) -> list[tuple[int, Bits]]:
        """Return the parts of a signal that are those of other signals, each with its position."""
        parts = []
        if net.name in self._drivers:
            own = [self.names.of.get(bit, (None,))[0] is net for bit in net.bits]
            for is_own, positions in groupby(range(len(own)), own.__getitem__):
                low, *following = positions
                if not is_own:
                    parts.append((low, net.bits[low : low + 1 + len(following)]))
        return parts

    def _assign(self, net: Net, text: str, attributes: Mapping[str, str]) -> None:
        name = identifier(net.name)
        if net.name in self.module.ports or net.name in self.early:
            self.early.add(net.name)
            self._line(f"assign {name} = {text};", {"src": attributes.get("src", "")})
        else:
            head = f"{attributes_of(net.attributes)}wire {wide(len(net.bits))}"
            self._line(f"{head}{name} = {text};", {**attributes, **net.attributes})
            self.sources[net.name] = net, False

    def _line(self, text: str, attributes: Mapping[str, str]) -> None:
        self.written.append(f"  {text}{comment(attributes)}")

    def word(self, cell: Cell) -> str:
        """Return the word of a memory that a port reads or writes."""
        memory = identifier(cell.parameters["MEMID"].removeprefix("\\"))
        return f"{memory}[{self.read(cell.ports['ADDR'] or ('0',)).text}]"
