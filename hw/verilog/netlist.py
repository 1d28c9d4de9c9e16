"""Netlist between Yosys and Verilog: modules of cells, and what is done with all of them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

#: A bit of a signal: its number in the module, or ``0``, ``1``, ``x``.
Bit = int | str
Bits = tuple[Bit, ...]


@dataclass
class Net:
    """A named signal of a module."""

    name: str
    bits: Bits
    attributes: dict[str, str]

    @property
    def is_public(self) -> bool:
        """True if the signal has a name in the sources."""
        return not self.name.startswith("$")


@dataclass(eq=False)
class Cell:
    """An operator, a register, a port of a memory, or an instance of a module."""

    kind: str
    name: str
    parameters: dict[str, str]
    attributes: dict[str, str]
    ports: dict[str, Bits]
    outputs: frozenset[str]

    def number(self, parameter: str) -> int:
        """Return the value of a parameter; 0 if there is none."""
        return int(self.parameters.get(parameter, "0").replace("x", "0"), 2)

    @property
    def result(self) -> Bits:
        """Bits that an operator, a register or a read port drives; none of a write port."""
        for port in self.outputs:
            return self.ports[port]
        return ()

    def read(self) -> Iterator[Bits]:
        """Yield the signals that the cell reads."""
        return (bits for port, bits in self.ports.items() if port not in self.outputs)


@dataclass
class Module:
    """A module; ``ports`` are their directions."""

    name: str
    attributes: dict[str, str]
    ports: dict[str, str]
    nets: dict[str, Net]
    cells: list[Cell]
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)


class Netlist:
    """Modules by name; those of ``roots`` are the tops.

    Examples
    --------
    >>> Netlist.read('{"modules": {}}', ()).modules
    {}
    """

    def __init__(self, modules: dict[str, Module], roots: Iterable[str]) -> None:
        self.modules = modules
        self.roots = tuple(roots)

    @classmethod
    def read(cls, text: str, roots: Iterable[str]) -> "Netlist":
        """Return the netlist of a text as ``write_json`` of Yosys writes it."""
        modules = json.loads(text)["modules"]
        return cls({name: _module(name, item, modules) for name, item in modules.items()}, roots)

    def prune(self) -> None:
        """Remove what no output of a root depends on: cells, signals, ports, modules."""
        live = _Live(self)
        for name, module in self.modules.items():
            bits = live.bits[name]
            module.cells = [cell for cell in module.cells if cell in live.cells]
            module.nets = {
                key: net
                for key, net in module.nets.items()
                if not bits.isdisjoint(net.bits)
                or (name in self.roots and key in module.ports)
                or (name, key) in live.ports  # constant, and read
            }
            if name not in self.roots:
                module.ports = {p: w for p, w in module.ports.items() if (name, p) in live.ports}
        for module in self.modules.values():
            for cell in module.cells:
                inner = self.modules.get(cell.kind)
                if inner:
                    ports = {p: bits for p, bits in cell.ports.items() if p in inner.ports}
                    cell.ports, cell.outputs = ports, cell.outputs & ports.keys()
            _ground(module)
        used = {cell.kind for module in self.modules.values() for cell in module.cells}
        self.modules = {n: m for n, m in self.modules.items() if n in used or n in self.roots}

    def instances(self, root: str) -> Iterator[tuple[str, Module]]:
        """Yield the paths of a root and of all instances below it, dots between names."""
        pending = [(root, self.modules[root])]
        while pending:
            path, module = pending.pop()
            yield path, module
            inside = ((cell.name, self.modules.get(cell.kind)) for cell in module.cells)
            pending += [(f"{path}.{name}", inner) for name, inner in inside if inner]


def _ground(module: Module) -> None:
    """Let bits be zero whose drivers nothing reads."""
    driven = {bit for cell in module.cells for port in cell.outputs for bit in cell.ports[port]}
    for port, way in module.ports.items():
        if way != "output":
            driven.update(module.nets[port].bits)

    def grounded(bits: Bits) -> Bits:
        return tuple(bit if bit in driven or isinstance(bit, str) else "0" for bit in bits)

    for net in module.nets.values():
        net.bits = grounded(net.bits)
    for cell in module.cells:
        cell.ports = {port: grounded(bits) for port, bits in cell.ports.items()}


def _module(name: str, item: Any, modules: Any) -> Module:
    nets = {n: Net(n, tuple(v["bits"]), v["attributes"]) for n, v in item["netnames"].items()}
    ports = {port: value["direction"] for port, value in item["ports"].items()}
    cells = [_cell(cell_name, cell, modules) for cell_name, cell in item["cells"].items()]
    return Module(name, item["attributes"], ports, nets, cells, item.get("memories", {}))


def _cell(name: str, item: Any, modules: Any) -> Cell:
    """Return a cell; the emitter notes the outputs of primitives of a vendor as an attribute."""
    attributes, kind = item["attributes"], item["type"]
    noted = attributes.pop("outputs", "").split()
    if kind in modules:
        ports = modules[kind]["ports"].items()
        noted = [port for port, value in ports if value["direction"] == "output"]
    elif kind.startswith("$"):
        directions = item["port_directions"].items()
        noted = [port for port, direction in directions if direction == "output"]
    connections = {port: tuple(bits) for port, bits in item["connections"].items()}
    outputs = frozenset(noted) & connections.keys()
    return Cell(kind, name, item["parameters"], attributes, connections, outputs)


class _Live:
    """Cells, bits and ports that outputs of the roots, and primitives, depend on."""

    def __init__(self, netlist: Netlist) -> None:
        self.modules = netlist.modules
        self.cells: set[Cell] = set()
        self.ports: set[tuple[str, str]] = set()
        self.bits: dict[str, set[Bit]] = {name: set() for name in netlist.modules}
        self._pending: list[tuple[str, Bit]] = []
        self._drivers: dict[str, dict[Bit, tuple[Cell, str, int]]] = {}
        self._inputs: dict[str, dict[Bit, tuple[str, int]]] = {}
        self._writes: dict[tuple[str, str], list[Cell]] = {}
        self._places: dict[str, list[tuple[str, Cell]]] = {}
        for name, module in netlist.modules.items():
            self._index(name, module)
        for root in netlist.roots:
            module = netlist.modules[root]
            for port, way in module.ports.items():
                if way != "input":
                    self._need(root, module.nets[port].bits)
        for name, module in netlist.modules.items():
            for cell in module.cells:
                if cell.kind not in netlist.modules and cell.kind[0] != "$":
                    self._keep(name, cell)
        while self._pending:
            self._follow(*self._pending.pop())

    def _index(self, name: str, module: Module) -> None:
        drivers = self._drivers[name] = {}
        for cell in module.cells:
            for port in cell.outputs:
                drivers.update((b, (cell, port, n)) for n, b in enumerate(cell.ports[port]))
            if cell.kind in self.modules:
                self._places.setdefault(cell.kind, []).append((name, cell))
            elif cell.kind in ("$memwr_v2", "$meminit_v2"):
                self._writes.setdefault((name, cell.parameters["MEMID"]), []).append(cell)
        self._inputs[name] = {
            bit: (port, n)
            for port, way in module.ports.items()
            if way != "output"
            for n, bit in enumerate(module.nets[port].bits)
        }

    def _need(self, name: str, bits: Iterable[Bit]) -> None:
        known = self.bits[name]
        for bit in bits:
            if bit not in known and not isinstance(bit, str):
                known.add(bit)
                self._pending.append((name, bit))

    def _keep(self, name: str, cell: Cell) -> None:
        """Let a cell be live, and all that it reads."""
        if cell not in self.cells:
            self.cells.add(cell)
            for bits in cell.read():
                self._need(name, bits)
            if cell.kind == "$memrd_v2":
                for other in self._writes.get((name, cell.parameters["MEMID"]), ()):
                    self._keep(name, other)

    def _follow(self, name: str, bit: Bit) -> None:
        """Follow a live bit to what drives it."""
        if pin := self._drivers[name].get(bit):
            cell, port, n = pin
            inner = self.modules.get(cell.kind)
            if inner is None:
                self._keep(name, cell)
            else:
                self.cells.add(cell)
                self.ports.add((cell.kind, port))
                self._need(cell.kind, (inner.nets[port].bits[n],))
        elif pin := self._inputs[name].get(bit):
            port, n = pin
            self.ports.add((name, port))
            for outside, cell in self._places.get(name, ()):
                self.cells.add(cell)
                if port in cell.ports:
                    self._need(outside, (cell.ports[port][n],))
