"""From components to Verilog: Amaranth writes RTLIL, Yosys a netlist, this package Verilog."""

from collections.abc import Callable, Iterable
from typing import Any

from amaranth._toolchain.yosys import YosysError, find_yosys
from amaranth.lib.wiring import Component

from celosia.hw.environment.caches import settle_caches
from celosia.hw.environment.extras import ToolError
from celosia.hw.verilog.emitter import CLASS, Elaborated, with_parts
from celosia.hw.verilog.lines import place
from celosia.hw.verilog.netlist import Module, Netlist
from celosia.hw.verilog.sources import HELPERS, Source
from celosia.hw.verilog.writer import Writer

#: Passes from RTLIL to a netlist. Equal operators become one here, before the writer gives them the
#: widths that are read. Equal registers stay apart: they are copies for fan-out. Verilog has no
#: signals of no bits.
_PASSES = (
    *("proc -norom", "opt_expr", "opt_muxtree", "opt_reduce"),
    "opt_merge t:$dff t:$adff %u %n",
    *("opt_clean", "delete */s:0"),
)


def run_yosys(rtlil: str, passes: Iterable[str]) -> str:
    """Return what passes of Yosys make of RTLIL."""
    script = "\n".join((f"read_rtlil <<rtlil\n{rtlil}\nrtlil", *passes))
    settle_caches()
    yosys = find_yosys(lambda version: version >= (0, 40))
    try:
        return yosys.run(["-q", "-"], script, ignore_warnings=True)
    except YosysError as error:
        # The last line of a traceback, or of Yosys, is the error.
        raise ToolError(f"yosys: {str(error).strip().splitlines()[-1]}") from None


class Conversion:
    """Verilog of components, and the sources of its signals.

    Modules are named after the classes of their components; equal ones are written once.

    Parameters
    ----------
    components : iterable of (str, Component)
        Names of the modules, and what is converted, the top last. What a component instantiates by
        name and converts by itself is found by its method ``parts``.
    simulated : bool
        A component that has a ``twin`` is written as that.
    report : function of str
        Called with lines of progress.

    Examples
    --------
    >>> from celosia.hw.lib.skid_buffer import SkidBuffer
    >>> text = Conversion([("buffer", SkidBuffer(8))]).text
    >>> text.splitlines()[1]
    'module buffer('
    """

    def __init__(
        self,
        components: Iterable[tuple[str, Component]],
        *,
        simulated: bool = False,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._before: list[str] = []
        elaborated: list[Elaborated] = []
        roots: list[str] = []
        for name, component in components:
            roots.append(name)
            report(f"elaborating {name}")
            twins, parts = with_parts(Elaborated(component, name), simulated=simulated)
            self._before += twins
            elaborated += parts
        report(f"synthesising {roots[-1]}")
        rtlil = "".join(one.rtlil() for one in elaborated)
        self.netlist = Netlist.read(run_yosys(rtlil, (*_PASSES, "write_json")), roots)
        report(f"writing {roots[-1]}")
        self.netlist.prune()
        self._names = {one.name: one.name for one in elaborated}
        self._texts: dict[str, str] = {}
        self._sources: dict[str, dict[str, Source]] = {}
        self._known: dict[str, str] = {}
        for root in roots:
            if root not in self._sources:
                self._write(self.netlist.modules[root], root)
        order = sorted(self._texts, key=lambda name: name not in roots)
        self.text = "\n".join((*self._before, *(self._texts[name] for name in order)))

    def sources(self, root: str, path: str = "") -> dict[str, Source]:
        """Return the sources of signals below a root that are no inputs of their modules.

        Their names have the instances down to them, joined by dots, after ``path``.
        """
        return {
            ".".join(part for part in (path, *where.split(".")[1:], name) if part): source
            for where, module in self.netlist.instances(root)
            for name, source in self._sources[module.name].items()
        }

    def _write(self, module: Module, root: str) -> None:
        """Write a module after those that it contains, unless an equal one is written."""
        for cell in module.cells:
            inner = self.netlist.modules.get(cell.kind)
            if inner and inner.name not in self._sources:
                self._write(inner, root)
        writer = Writer(module, self._names)
        text = writer.text()
        own = place(module.attributes)
        self._sources[module.name] = {
            name: _source(net.attributes, own, is_register)
            for name, (net, is_register) in writer.signals.sources.items()
        }
        name = self._names.get(module.name)
        if name is None:
            name = self._known.get(text) or self._fresh(root, module)
            self._names[module.name] = self._known[text] = name
        self._texts[name] = f"// {own}\nmodule {name}{text}"

    def _fresh(self, root: str, module: Module) -> str:
        """Return a new name for a module, after the class of its component."""
        kind = module.attributes.get(CLASS, "Module")
        kind = module.name.rpartition(".")[2] if kind == "Module" else kind
        pairs = zip(kind, " " + kind, strict=False)
        words = "".join("_" * (c.isupper() and last.islower()) + c for c, last in pairs).lower()
        name, number = f"{root}_{words.replace('$', '_')}", 1
        while name in self._texts or name in self._names.values():
            number += 1
            name = f"{root}_{words}_{number}"
        return name


def _source(attributes: Any, own: str, is_register: bool) -> Source:
    where = place(attributes)
    return Source(own if where.partition(":")[0] in HELPERS else where, is_register)
