"""Verilog of one module of a netlist.

All registers of a clock share one block, and those that change under the same condition stand below
it.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby

from celosia.hw.verilog.emitter import ZEROS
from celosia.hw.verilog.expressions import functions
from celosia.hw.verilog.lines import attributes_of, comment, literal, packed, wide
from celosia.hw.verilog.names import constant, identifier
from celosia.hw.verilog.netlist import Bit, Bits, Cell, Module, Net
from celosia.hw.verilog.registers import Step, chosen, statements
from celosia.hw.verilog.signals import Signals, is_register

#: Words of a memory that synthesis does not clear: bitstreams do, and Yosys takes long.
_LARGE = 1024


def _enables(cell: Cell) -> Iterator[tuple[int, int, Bit]]:
    """Yield the parts of a word that a port writes: position, width, enable."""
    bits = cell.ports["EN"]
    for enable, positions in groupby(range(len(bits)), bits.__getitem__):
        low, *following = positions
        yield low, 1 + len(following), enable


class Writer:
    """Writer of a module.

    Parameters
    ----------
    module : Module
        Module. Its cells are changed.
    modules : mapping of str to str
        Names that the modules of instances get.
    """

    def __init__(self, module: Module, modules: Mapping[str, str]) -> None:
        self.module = module
        self.modules = modules
        self.signals = Signals(module)
        names = self.signals.names
        self._known = {**module.nets, **names.read, **names.homes}
        self._init = {
            bit: value
            for net in module.nets.values()
            for bit, value in zip(net.bits, net.attributes.get("init", "")[::-1], strict=False)
        }

    def text(self) -> str:
        """Return the module, all after its name."""
        blocks, instances = list(self._blocks()), list(self._instances())
        for port in self.signals.outputs:
            self.signals.define(self.module.nets[port])
        lines = [*self._memories(), *self._declarations(), *functions(self.signals.shapes)]
        lines += [*self.signals.written, *instances, *self._initial(), *blocks]
        return "\n".join([*self._head(), *lines, "endmodule\n"])

    def _head(self) -> Iterator[str]:
        """Yield the lines of the ports."""
        yield "("
        ports = sorted(self.module.ports.items(), key=lambda item: item[0] != "clk")
        for n, (port, way) in enumerate(ports):
            net = self.signals.names.homes.get(port, self.module.nets[port])
            comma = "," * (n + 1 < len(ports))
            head = f"  {attributes_of(net.attributes)}{way} "
            yield f"{head}{self._declared(net)}{comma}{comment(net.attributes)}"
            if way == "output":
                self.signals.sources[port] = net, port in self.signals.registers
        yield ");"

    def _declarations(self) -> Iterator[str]:
        """Yield the lines of registers, and of signals that are used before their assignment."""
        for name in (
            *self.signals.registers,
            *sorted(self.signals.early - self.signals.registers.keys()),
        ):
            if name not in self.module.ports:
                net = self._known[name]
                kind = "" if name in self.signals.registers else "wire "
                yield (
                    f"  {attributes_of(net.attributes)}{kind}{self._declared(net)};"
                    f"{comment(net.attributes)}"
                )
                self.signals.sources[name] = net, name in self.signals.registers

    def _declared(self, net: Net) -> str:
        """Return the declaration of a signal."""
        kind = "reg " if net.name in self.signals.registers else ""
        return kind + wide(len(net.bits)) + identifier(net.name)

    def _initial(self) -> Iterator[str]:
        """Yield the block of the initial values of registers.

        Newer Verilators warn of a value in the declaration of what a block changes.
        """
        items = []
        for name in self.signals.registers:
            init = [self._init.get(bit, "x") for bit in self._known[name].bits]
            if "x" not in init:
                items.append(f"{identifier(name)} = {constant(init)};")
        if items:
            yield from ("  initial begin", *packed(items, "    ", ""), "  end")

    def _step(self, bits: Bits, held: Bits) -> Step | None:
        """Return what a register takes over; multiplexers that nothing else reads are branches."""
        if bits == held:
            return None
        (home, _, repeats, part), *following = self.signals.names.pieces(bits)
        if home and not following and repeats == 1 and part == home.bits:
            cell = self.signals.names.private.get(home.name)
            if cell and cell.kind == "$mux" and self.signals.names.uses[home.name] == 1:
                then, otherwise = (self._step(cell.ports[port], held) for port in "BA")
                return chosen(self.signals.read(cell.ports["S"]).text, then, otherwise)
        return Step(value=self.signals.read(bits).text)

    def read_step(self, cell: Cell) -> Step | None:
        """Return the word that the register of a read port takes over."""
        step = Step(value=self.signals.word(cell))
        for other in self.module.cells:
            if other.kind == "$memwr_v2" and other.parameters["MEMID"] == cell.parameters["MEMID"]:
                if cell.number("TRANSPARENCY_MASK") >> other.number("PORTID") & 1:
                    same = [self.signals.read(c.ports["ADDR"]).text for c in (cell, other)]
                    for _, width, enable in _enables(other):
                        if width < len(cell.result):
                            raise NotImplementedError(f"{self.module.name}: a transparent part")
                        written = Step(value=self.signals.read(other.ports["DATA"]).text)
                        condition = f"{self.signals.read((enable,)).text} && ({' == '.join(same)})"
                        step = Step(condition, written, step)
        enable = cell.ports["EN"]
        return step if enable == ("1",) else chosen(self.signals.read(enable).text, step, None)

    def _blocks(self) -> Iterator[str]:
        """Yield the lines of all registers and of what is written to memories."""
        blocks: dict[str, list[tuple[str, Step | None]]] = {}
        for cell in self.module.cells:
            if not (is_register(cell) or cell.kind == "$memwr_v2"):
                continue
            edge = "posedge" if cell.number("CLK_POLARITY") else "negedge"
            event = f"{edge} {self.signals.read(cell.ports['CLK']).text}"
            if cell.kind == "$memwr_v2":
                blocks.setdefault(event, []).extend(self._writes(cell))
                continue
            if cell.kind == "$memrd_v2":
                step = self.read_step(cell)
            else:
                step = self._step(cell.ports["D"], cell.result)
            if cell.kind == "$adff":
                reset = self.signals.read(cell.ports["ARST"]).text
                event += f" or posedge {reset}"
                value = constant(cell.parameters["ARST_VALUE"][::-1])
                step = chosen(reset, Step(value=value), step)
            target = identifier(self.signals.names.of[cell.result[0]][0].name)
            blocks.setdefault(event, []).append((target, step))
        for event, steps in blocks.items():
            lines = statements(steps)
            if lines:
                yield from (f"  always @({event}) begin", *lines, "  end")

    def _writes(self, cell: Cell) -> Iterator[tuple[str, Step | None]]:
        word = self.signals.word(cell)
        for low, width, enable in _enables(cell):
            bits = cell.ports["DATA"]
            part = "" if width == len(bits) else f"[{low + width - 1}:{low}]"
            step = Step(value=self.signals.read(bits[low : low + width]).text)
            if enable == "1":
                yield word + part, step
            elif enable != "0":
                yield word + part, Step(self.signals.read((enable,)).text, step)

    def _memories(self) -> Iterator[str]:
        """Yield the lines of memories with their first words."""
        words = {c.parameters["MEMID"]: c for c in self.module.cells if c.kind == "$meminit_v2"}
        used = {c.parameters.get("MEMID", "").removeprefix("\\") for c in self.module.cells}
        memories = {name: m for name, m in self.module.memories.items() if name in used}
        if any(ZEROS in memory["attributes"] for memory in memories.values()):
            yield "  integer _n_;"
        for name, memory in memories.items():
            width, size, attributes = memory["width"], memory["size"], memory["attributes"]
            text = identifier(name)
            yield (
                f"  {attributes_of(attributes)}reg {wide(width)}{text} [0:{size - 1}];"
                f"{comment(attributes)}"
            )
            if ZEROS in attributes:
                loop = f"for (_n_ = 0; _n_ < {size}; _n_ = _n_ + 1) {text}[_n_] = {width}'h0;"
                yield from ["`ifndef SYNTHESIS"] * (size >= _LARGE)
                yield f"  initial {loop}"
                yield from ["`endif"] * (size >= _LARGE)
            elif cell := words.get(f"\\{name}"):
                bits = cell.ports["DATA"]
                values = (constant(bits[n * width : (n + 1) * width]) for n in range(size))
                items = (f"{text}[{n}] = {value};" for n, value in enumerate(values))
                yield from ("  initial begin", *packed(items, "    ", ""), "  end")

    def _instances(self) -> Iterator[str]:
        for cell in self.module.cells:
            if cell.kind[0] == "$":
                continue
            parameters = [f".{key}({literal(value)})" for key, value in cell.parameters.items()]
            ports = [
                f".{identifier(port)}({self.signals.read(bits).text})"
                for port, bits in cell.ports.items()
            ]
            name = identifier(self.modules.get(cell.kind, cell.kind))
            head = f"  {attributes_of(cell.attributes)}{name}"
            if parameters:
                yield f"{head} #("
                yield from packed(parameters, "    ")
                yield f"  ) {identifier(cell.name)} ({comment(cell.attributes)}"
            else:
                yield f"{head} {identifier(cell.name)} ({comment(cell.attributes)}"
            yield from packed(ports, "    ")
            yield "  );"
