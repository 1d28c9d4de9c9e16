"""RTLIL of components, through the back end of Amaranth."""

from collections.abc import Iterator
from typing import Any

from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.hdl import _ast, _ir
from amaranth.lib.wiring import Component, In

#: Attributes that the emitter gives: fields of a signal, outputs of a primitive, class of a
#: component, a memory whose words begin as zeros.
FIELDS, OUTPUTS, CLASS, ZEROS = "fields", "outputs", "component", "zeros"


class Emitter(rtlil.ModuleEmitter):
    """Writer of one module, with what Verilog for people wants to know as attributes."""

    def emit_signal_wires(self) -> None:
        """Write the wires of signals, without the names of their values."""
        super().emit_signal_wires()
        for attributes in self.value_attrs.values():
            for key in [key for key in attributes if key.startswith("enum_")]:
                del attributes[key]

    def emit_memory(self, cell_idx: int, cell: Any) -> None:
        """Write the initial words of a memory as one constant, and nothing for zeros."""
        memory = self.memories[cell_idx].memid
        if not any(cell.init):
            self.builder.contents[memory].attribute(ZEROS, 1)
            return
        words = (f"{word % (1 << cell.width):0{cell.width}b}" for word in reversed(cell.init))
        ports = {
            "ADDR": self.sigspec(),
            "DATA": f"{cell.width * cell.depth}'{''.join(words)}",
            "EN": f"{cell.width}'{'1' * cell.width}",
        }
        sizes = {"ABITS": 0, "WIDTH": cell.width, "WORDS": cell.depth, "PRIORITY": 0}
        parameters = {"MEMID": memory, **sizes}
        self.builder.cell("$meminit_v2", ports=ports, parameters=parameters, src_loc=cell.src_loc)

    def emit_signal_fields(self) -> None:
        """Note the fields of a signal as its attribute; Amaranth makes a wire of each."""
        for signal, name in self.module.signal_names.items():
            text = ", ".join(self._fields(signal))
            if text:
                self.sigport_wires[name][0].attribute(FIELDS, text)

    def _fields(self, signal: Any) -> Iterator[str]:
        """Yield the smallest fields of a signal with their bits."""
        signal_bits = self.netlist.signals[signal]
        fields = self.netlist.signal_fields[signal]
        outer = {path[:-1] for path in fields if path}
        following = {(): 0}
        for path, field in fields.items():
            if not path or path[:-1] not in following:
                continue
            width = len(field.value)
            for low in range(following[path[:-1]], len(signal_bits) - width + 1):
                if signal_bits[low : low + width] == field.value:
                    following[path[:-1]], following[path] = low + width, low
                    bits = f"{low + width - 1}:{low}" if width > 1 else f"{low}"
                    if path not in outer:
                        parts = (f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
                        yield f"{''.join(parts).removeprefix('.')} [{bits}]"
                    break

    def emit_instance(self, cell_idx: int, cell: Any) -> None:
        """Write an instance, its outputs as an attribute."""
        super().emit_instance(cell_idx, cell)
        if cell.ports_o:
            self.builder.contents[f"\\{cell.name}"].attribute(OUTPUTS, " ".join(cell.ports_o))


class Elaborated:
    """A component after elaboration, ready to be written.

    Parameters
    ----------
    component : Component
        Component that is elaborated.
    name : str
        Name of the module.
    """

    def __init__(self, component: Component, name: str) -> None:
        ports: dict[str, Any] = {}
        for path, member, value in component.signature.flatten(component):
            flow = _ir.PortDirection.Input if member.flow is In else _ir.PortDirection.Output
            ports["__".join(map(str, path))] = (_ast.Value.cast(value), flow)
        fragment = _ir.Fragment.get(component, None)
        self.name = name
        self.design = fragment.prepare(ports=ports, hierarchy=(name,))
        self.netlist = _ir.build_netlist(self.design)

    def components(self) -> dict[str, Component]:
        """Return the component of each module."""
        classes: dict[str, Component] = {}
        for component, fragment in self.design.elaboratables.items():
            # Of a component in renamed domains, or with another reset, the component itself.
            inner = getattr(component, "_elaboratable_", component)
            classes.setdefault(".".join(self.design.fragments[fragment].name), inner)
        return classes

    def rtlil(self, emitter: type[Emitter] = Emitter, *, has_sources: bool = True) -> str:
        """Return the RTLIL of all modules, written by ``emitter``, with the lines of sources."""
        names: Any = _ast.SignalDict()
        empty = rtlil.EmptyModuleChecker(self.netlist)
        components = self.components()
        design = rtlil.Design(emit_src=has_sources)
        for number, module in enumerate(self.netlist.modules):
            if not empty.is_empty(number):
                name = ".".join(module.name)
                builder = design.module(name, src_loc=module.src_loc)
                if name in components:
                    builder.attribute(CLASS, type(components[name]).__name__)
                emitter(builder, self.netlist, module, names, empty_checker=empty).emit()
        return str(design)


def with_parts(
    elaborated: Elaborated, *, simulated: bool = False
) -> tuple[list[str], list[Elaborated]]:
    """Return a component after those that it instantiates by name, and the Verilog of twins.

    Such a component has a method ``parts``, and maybe one ``twin`` that returns the Verilog that
    simulators are to read instead.
    """
    twins: list[str] = []
    earlier: list[Elaborated] = []
    for component in elaborated.design.elaboratables:
        if simulated and hasattr(component, "twin"):
            twins.append(component.twin())
        elif hasattr(component, "parts"):
            earlier += [Elaborated(part, name) for name, part in component.parts()]
    return twins, [*earlier, elaborated]
