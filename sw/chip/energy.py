"""Energy of a network: changes of the nets of a core's netlist, times the energies of its cells."""

import ctypes
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.environment.extras import ToolError
from celosia.sw.chip.liberty import INPUTS, Cell, Library
from celosia.sw.chip.synthesis import Netlist

_SIMULATOR = Path(__file__).with_name("gates.cpp")
#: Loads of a NAND's input that reading or writing a bit of a memory is taken to charge.
LOADS = 100
_WRAPPER = """\
module celosia({ports});
{declarations}
  import "DPI-C" function void celosia_chip(input bit [{inputs}:0] i, output bit [{outputs}:0] o);
  bit [{outputs}:0] out;
  always @* celosia_chip({{{taken}, clk}}, out);
  assign {{{driven}}} = out;
endmodule
"""


class Energy(NamedTuple):
    """Energy of a block in nJ: logic, clock pins of its flip-flops, memories, leakage."""

    logic: float
    clock: float
    memories: float
    leakage: float

    @property
    def total(self) -> float:
        """Sum of all."""
        return sum(self)


class Memories:
    """Area and energy of memories: of macros with a size, or for each bit.

    Parameters
    ----------
    library : Library
        A bit takes the area of its smallest NAND, and an access of a bit the energy of ``LOADS``
        of its inputs, unless the other parameters give them.
    area : float, optional
        Of a bit, in µm².
    energy : float, optional
        Of a bit read or written, in fJ.
    macros : sequence of Library
        Cells with a group ``memory``; with them neither area nor energy of a bit is used.
    """

    def __init__(
        self,
        library: Library,
        *,
        area: float | None = None,
        energy: float | None = None,
        macros: Sequence[Library] = (),
    ) -> None:
        nand = library.nand
        load = max(pin.capacitance for pin in nand.pins.values())
        self.bit_area = nand.area if area is None else area
        self.bit_energy = LOADS * load * library.volts**2 if energy is None else energy
        self.macros = [cell for one in macros for cell in one.cells.values() if cell.words]

    def area(self, words: int, width: int) -> float:
        """Return the area of a memory in µm²."""
        if self.macros:
            return min(_copies(words, width, macro) * macro.area for macro in self.macros)
        return words * width * self.bit_area

    def energy(self, words: int, width: int) -> float:
        """Return the energy of one bit of an access in fJ."""
        if not self.macros:
            return self.bit_energy
        macro = min(self.macros, key=lambda macro: _copies(words, width, macro) * macro.area)
        return _copies(1, width, macro) * _access(macro) / width


def _copies(words: int, width: int, macro: Cell) -> int:
    return -(-words // macro.words) * -(-width // macro.bits)


def _access(macro: Cell) -> float:
    """Return the energy of both edges of the clock of a macro."""
    powers = [pin.energy(np.zeros(1))[0] for pin in macro.pins.values() if pin.function is None]
    return 2 * max(powers)


class Gates:
    """Netlist of one module, as the simulator takes it.

    Raises ToolError if a cell is of a kind that it does not know.
    """

    def __init__(self, netlist: Netlist) -> None:
        self.library = netlist.library
        module = json.loads(netlist.flat.read_text())["modules"][netlist.top]
        self.ports: dict[str, Any] = module["ports"]
        #: For each kind and block the nets of each pin, 0 where it is open, a row for each cell.
        self.pins: dict[tuple[str, str], dict[str, list[int]]] = {}
        #: Memories: block, words, width.
        self.memories: list[tuple[str, int, int]] = []
        #: Inputs and truth table of each output of a kind.
        self._functions: dict[tuple[str, str], tuple[list[str], int]] = {}
        self._tables: list[int] = []
        self._gates: list[list[int]] = []
        self._registers: list[list[int]] = []
        self._shapes: list[int] = []
        for name, cell in module["cells"].items():
            nets = {pin: [_net(bit) for bit in bits] for pin, bits in cell["connections"].items()}
            self._add(cell["type"], _block(name), nets, cell["parameters"])
        lists = (self._gates, self._registers, [self._shapes])
        ports = [_net(bit) for port in self.ports.values() for bit in port["bits"]]
        self.nets = 1 + max(
            max(map(max, filter(None, rows)), default=1) for rows in (*lists, [ports])
        )

    def _add(
        self, kind: str, block: str, nets: dict[str, list[int]], parameters: Mapping[str, str]
    ) -> None:
        if kind == "$mem_v2":
            return self._add_memory(block, nets, parameters)
        if kind not in self.library.cells:
            raise ToolError(f"{kind}: wanted a cell of the library")
        cell = self.library.cells[kind]
        row = {pin: (nets.get(pin) or [0])[0] for pin in cell.pins}
        columns = self.pins.setdefault((kind, block), {pin: [] for pin in cell.pins})
        for pin, net in row.items():
            columns[pin].append(net)
        outputs = [pin for pin, one in cell.pins.items() if one.function and row[pin]]
        if cell.register:
            data, _, state = cell.register
            same = [row[pin] for pin in outputs if cell.pins[pin].function == state]
            inverse = [row[pin] for pin in outputs if cell.pins[pin].function != state]
            self._registers.append([row[data], *(same or [0]), *(inverse or [0])])
            return None
        for pin in outputs:
            if (kind, pin) not in self._functions:
                self._functions[kind, pin] = cell.table(pin)
            inputs, table = self._functions[kind, pin]
            self._tables.append(table)
            self._gates.append([*(row[one] for one in inputs), *[0] * INPUTS][:INPUTS] + [row[pin]])
        return None

    def _add_memory(
        self, block: str, nets: dict[str, list[int]], parameters: Mapping[str, str]
    ) -> None:
        names = ("WIDTH", "ABITS", "SIZE", "OFFSET", "RD_PORTS", "WR_PORTS")
        width, address, words, offset, reads, writes = (int(parameters[n], 2) for n in names)
        is_simple = "0" not in parameters["RD_CLK_ENABLE"] and not any(
            nets["RD_SRST"] + nets["RD_ARST"]
        )
        if not is_simple or "1" in parameters["RD_TRANSPARENCY_MASK"] + parameters["INIT"]:
            raise ToolError(f"{block}: wanted memories that read at the clock's edge, no contents")
        self._shapes += [width, address, words, offset, reads, writes]
        sides = (
            ("RD_EN", "RD_ADDR", "RD_DATA", 1, reads),
            ("WR_EN", "WR_ADDR", "WR_DATA", width, writes),
        )
        for *pins, enables, ports in sides:
            for n in range(ports):
                for pin, size in zip(pins, (enables, address, width), strict=True):
                    self._shapes += nets[pin][n * size : (n + 1) * size]
        self.memories.append((block, words, width))

    def _bits(self, direction: str) -> list[tuple[str, int]]:
        """Return the bits of the ports of a direction, the clock left out: Verilog and net."""
        return [
            (f"{name}[{n}]" if len(port["bits"]) > 1 else name, _net(bit))
            for name, port in self.ports.items()
            if port["direction"] == direction and name != "clk"
            for n, bit in enumerate(port["bits"])
        ]

    def wrapper(self) -> str:
        """Return Verilog with the ports of the netlist, which calls the simulator."""
        declarations = [
            f"  {port['direction']} [{len(port['bits']) - 1}:0] {name};"
            if len(port["bits"]) > 1
            else f"  {port['direction']} {name};"
            for name, port in self.ports.items()
        ]
        inputs, outputs = self._bits("input"), self._bits("output")
        return _WRAPPER.format(
            ports=", ".join(self.ports),
            declarations="\n".join(declarations),
            inputs=len(inputs),
            outputs=len(outputs) - 1,
            taken=", ".join(name for name, _ in reversed(inputs)),
            driven=", ".join(name for name, _ in reversed(outputs)),
        )

    def load(self, simulator: Any) -> None:
        """Give the netlist to the simulator; raises ToolError if gates are in a loop."""
        ports = [[net for _, net in self._bits(side)] for side in ("input", "output")]
        sizes = [self.nets, len(self._tables), len(self._registers), len(self._shapes)]
        arrays = [
            np.array([*sizes, *map(len, ports)], np.uint32),
            np.array(self._tables, np.uint64),
            np.array(self._gates, np.uint32),
            np.array(self._registers, np.uint32),
            np.array(self._shapes, np.uint32),
            np.array(sum(ports, []), np.uint32),
        ]
        if not simulator.celosia_chip_open(
            *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays)
        ):
            raise ToolError("netlist: wanted gates without loops")

    def take(self, simulator: Any) -> tuple[int, np.ndarray, np.ndarray]:
        """Return cycles, changes of each net, and bits read and written of each memory."""
        changes = np.zeros(self.nets, np.uint32)
        accesses = np.zeros((len(self.memories), 2), np.uint64)
        cycles = simulator.celosia_chip_take(
            *(array.ctypes.data_as(ctypes.c_void_p) for array in (changes, accesses))
        )
        (clock,) = self.ports["clk"]["bits"]
        changes[clock] = 2 * cycles
        return cycles, changes, accesses

    def energies(
        self,
        cycles: int,
        changes: np.ndarray,
        accesses: np.ndarray,
        memories: Memories,
        nanoseconds: float,
    ) -> dict[str, Energy]:
        """Return the energy of each block; ``nanoseconds``: of a cycle."""
        load = np.zeros(self.nets)
        for (kind, _), columns in self.pins.items():
            for name, pin in self.library.cells[kind].pins.items():
                np.add.at(load, columns[name], pin.capacitance)
        load[:2] = 0
        half = self.library.volts**2 / 2
        sums: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(4))
        for (kind, block), columns in self.pins.items():
            cell = self.library.cells[kind]
            clock = cell.register[1] if cell.register else None
            for name, pin in cell.pins.items():
                nets = np.array(columns[name])
                # A net is charged where it is taken, so that inputs of the core count as well.
                own = pin.energy(load[nets]) + pin.capacitance * half
                sums[block][int(name == clock)] += changes[nets] @ own
            sums[block][3] += (
                cell.leakage * len(next(iter(columns.values()))) * cycles * nanoseconds * 1e-3
            )
        for (block, words, width), counts in zip(self.memories, accesses, strict=True):
            sums[block][2] += float(counts.sum()) * memories.energy(words, width)
        return {
            block: Energy(*(row * 1e-6))
            for block, row in sorted(sums.items(), key=lambda i: -i[1].sum())
        }


def _net(bit: int | str) -> int:
    """Return the number of a net: 0 and 1 are constant."""
    return bit if isinstance(bit, int) else int(bit == "1")


def _block(name: str) -> str:
    parts = name.removeprefix("$flatten").replace("\\", "").split(".")
    is_inside = parts[0] == "core" and len(parts) > 2 and not parts[1].startswith("$")
    return parts[1] if is_inside else "between"


def simulator() -> Any:
    """Return the compiled simulator; raises SimulatorNotFound without a C++ compiler."""
    from celosia.sim.rtl.verilate import library_of

    library = ctypes.CDLL(str(library_of(_SIMULATOR, "-O2")), mode=ctypes.RTLD_GLOBAL)
    library.celosia_chip_take.restype = ctypes.c_uint64
    return library


def energy_of(
    netlist: Netlist,
    program: Any,
    inputs: Sequence[np.ndarray],
    memories: Memories,
    nanoseconds: float,
) -> tuple[int, dict[str, Energy]]:
    """Return the cycles of a program on a netlist, and the energy of each block.

    Raises ToolError if the netlist gives other bytes than the machine model.
    """
    from celosia.sw.runtime.opening import open_session

    gates, library = Gates(netlist), simulator()
    gates.load(library)
    wrapper = netlist.directory / "wrapper.v"
    wrapper.write_text(gates.wrapper())
    with open_session(program) as session:
        expected = session.run(inputs)
    with open_session(program, device="rtl", netlist=wrapper) as session:
        gates.take(library)
        outputs = session.run(inputs)
        counts = gates.take(library)
    if any(not np.array_equal(*pair) for pair in zip(outputs, expected, strict=True)):
        raise ToolError("netlist: wanted the bytes of the machine model, got others")
    return counts[0], gates.energies(*counts, memories, nanoseconds)
