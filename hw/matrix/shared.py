"""Large arrays: Verilog of one cell and one row, instantiated many times.

Amaranth elaborates each submodule, even if many are equal: an array of 64 × 64 takes minutes. Here
cell, row and array are elaborated once each (``SharedArray.parts``), and instantiated by name.
"""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Shape, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Signature

from celosia.hw.lib.component import Component
from celosia.hw.matrix.array import Row, SystolicArray, buses
from celosia.hw.matrix.cell import Cell
from celosia.hw.matrix.twin import twin

#: Most cells of an array whose cells are submodules.
MOST = 16 * 16

#: Names of the module of a shared array, and of its rows.
MODULE, _ROW = "celosia_array", "celosia_array_row"
_SIZES = ("rows", "columns", "weight_rows", "dsp_columns", "cells")


def _instance(m: Module, name: str, module: str, ports: Signature, component: Any = None) -> Any:
    """Add an instance of the Verilog of a component with these ports; return an interface.

    ``component``: the interface to connect, instead of new signals.
    """
    arguments: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": Const(0)}
    interface = component or SimpleNamespace()
    for port, member in ports.members.items():
        if component is None:
            setattr(interface, port, _plain(member.shape, name=f"{name}_{port}"))
        direction = "i" if member.flow is In else "o"
        arguments[f"{direction}_{port}"] = Value.cast(getattr(interface, port))
    m.submodules[name] = Instance(module, **arguments)
    return interface


def _plain(shape: Any, **settings: Any) -> Any:
    """Return a signal of a shape. Of a layout, Verilog gets no wire for each field."""
    signal = Signal(Shape.cast(shape), **settings)
    return data.View(shape, signal) if isinstance(shape, data.Layout) else signal


class SharedRow(Row):
    """Row whose cells are instances: see ``SharedArray.parts``."""

    def cell(self, m: Module, kind: type[Cell], name: str) -> Any:
        """Add an instance of a cell; return its ports."""
        return _instance(m, name, _cell(kind), kind.ports(self.sum_bits))


class RowArray(SystolicArray):
    """Array whose rows are instances: see ``SharedArray.parts``."""

    def row(self, m: Module, name: str) -> Any:
        """Add an instance of a row; return its ports."""
        return _instance(m, name, _ROW, Row.ports(self.kinds, self.sum_bits))

    def _bus(self, name: str, **settings: Any) -> Any:
        """Return a signal for the weight buses of a row."""
        return _plain(buses(self.kinds), name=name, **settings)

    @staticmethod
    def _delay(m: Module, value: Value, cycles: int, name: str) -> Value:
        """Return a value some cycles later, from one register for all cycles."""
        if not cycles:
            return value
        width = len(value)
        line = Signal(width * cycles, name=name, reset_less=True)
        m.d.sync += line.eq(Cat(value, line[:-width]))
        late = line[-width:]
        return late.as_signed() if value.shape().signed else late


class SharedArray(SystolicArray):
    """Instance of an array that ``parts`` are; see ``SystolicArray``."""

    def parts(self) -> list[tuple[str, Component]]:
        """Return the modules of the array: their names, and what to convert."""
        sizes = {name: getattr(self, name) for name in _SIZES}
        array = RowArray(**sizes)
        cells: list[tuple[str, Any]] = [
            (_cell(kind), kind(sum_bits=array.sum_bits)) for kind in dict.fromkeys(array.kinds)
        ]
        row = SharedRow(kinds=array.kinds, sum_bits=array.sum_bits)
        return [*cells, (_ROW, row), (MODULE, array)]

    def twin(self) -> str:
        """Return the Verilog of the array for simulators."""
        return twin(self, MODULE)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        _instance(m, "array", MODULE, self.signature, self)
        return m


def _cell(kind: type[Cell]) -> str:
    return f"celosia_array_{kind.__name__}"


def is_large(rows: int, columns: int) -> bool:
    """Return whether the array of a core is a shared one, and simulated by its twin."""
    return rows * columns > MOST


def array_of(**sizes: Any) -> SystolicArray:
    """Return an array, a shared one if it is large."""
    kind = SharedArray if is_large(sizes["rows"], sizes["columns"]) else SystolicArray
    return kind(**sizes)
