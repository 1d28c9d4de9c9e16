"""Names of the bits of a module, and signals as text.

Every driver has one home: the signal of the sources that it drives, or a number without one. All
readers use the name of the home, so a signal that only renames another one is not written.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from celosia.hw.verilog.netlist import Bit, Bits, Cell, Module, Net

#: Words that no identifier may be.
_KEYWORDS = frozenset(
    "always and assign automatic begin buf bufif0 bufif1 case casex casez cell cmos config deassign"
    " default defparam design disable edge else end endcase endconfig endfunction endgenerate"
    " endmodule endprimitive endspecify endtable endtask event final for force forever fork"
    " function generate genvar highz0 highz1 if ifnone incdir include initial inout input instance"
    " integer join large liblist library localparam macromodule medium module nand negedge nmos nor"
    " not notif0 notif1 or output parameter pmos posedge primitive pull0 pull1 pulldown pullup rcmos"
    " real realtime reg release repeat rnmos rpmos rtran rtranif0 rtranif1 scalared signed small"
    " specify specparam strength strong0 strong1 supply0 supply1 table task time tran tranif0"
    " tranif1 tri tri0 tri1 triand trior trireg unsigned use vectored wait wand weak0 weak1 while"
    " wire wor xnor xor alias assert assume before bind bins binsof bit break byte chandle class"
    " clocking const constraint context continue cover cross dist do endclass endclocking endgroup"
    " endinterface endpackage endprogram endproperty endsequence enum expect export extends extern"
    " first_match foreach forkjoin iff ignore_bins illegal_bins import inside int interface"
    " intersect join_any join_none local logic longint matches modport new null package packed"
    " priority program property protected pure rand randc randcase randsequence ref return sequence"
    " shortint shortreal solve static string struct super tagged this throughout timeprecision"
    " timeunit type typedef union unique var virtual void wait_order wildcard with within".split()
)


def identifier(name: str) -> str:
    """Return a name as Verilog writes it, with a backslash before characters of no identifier.

    Examples
    --------
    >>> identifier("row"), identifier("row[1]"), identifier("begin")
    ('row', '\\\\row[1] ', '\\\\begin ')
    """
    plain = name.replace("$", "_").isidentifier() and name.isascii() and name[0] != "$"
    return name if plain and name not in _KEYWORDS else f"\\{name} "


def constant(bits: Iterable[Bit]) -> str:
    """Return a constant, whose lowest bit is the first.

    Examples
    --------
    >>> constant("011"), constant("00000000"), constant("0x1")
    ("3'h6", "8'h00", "3'b1x0")
    """
    text = "".join(map(str, bits))[::-1]
    if "x" not in text:
        return f"{len(text)}'h{int(text, 2):0{-(-len(text) // 4)}x}"
    return (
        f"{len(text)}'h{'x' * -(-len(text) // 4)}" if set(text) == {"x"} else f"{len(text)}'b{text}"
    )


class Names:
    """Homes of the drivers of a module, and the text of any of its signals.

    Parameters
    ----------
    module : Module
        Module, its cells as they will be written.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        #: Names that are written, with their bits.
        self.homes: dict[str, Net] = {}
        #: Home and position of each bit.
        self.of: dict[Bit, tuple[Net, int]] = {}
        #: Cells whose result has no name in the sources, by the home of the result.
        self.private: dict[str, Cell] = {}
        self._taken = {name for name in module.nets if name[0] != "$"} | set(module.memories)
        self._taken |= {cell.name for cell in module.cells}
        self._last = 0
        self._candidates: dict[Bit, list[tuple[Net, int]]] = {}
        for net in module.nets.values():
            for n, bit in enumerate(net.bits if net.is_public else ()):
                if not isinstance(bit, str):
                    self._candidates.setdefault(bit, []).append((net, n))
        for port, way in module.ports.items():
            if way != "output":
                self._settle(module.nets[port], 0, module.nets[port].bits)
        for cell in module.cells:
            for port in sorted(cell.outputs):
                self._drive(cell, cell.ports[port])
        #: Signals of the sources that are made of several others, or of parts of numbered ones.
        self.composites = {net.bits: net for net in self._composites()}
        #: Uses of each home, and the composites that are read as a whole.
        self.uses: Counter[str] = Counter()
        self.read: dict[str, Net] = {}

    def fresh(self) -> str:
        """Return a new name."""
        while True:
            self._last += 1
            name = f"_{self._last}_"
            if name not in self._taken:
                return name

    def _settle(self, home: Net, low: int, bits: Bits) -> None:
        self.homes[home.name] = home
        for n, bit in enumerate(bits):
            self.of.setdefault(bit, (home, low + n))

    def _drive(self, cell: Cell, bits: Bits) -> None:
        """Settle where a cell drives what."""
        signal = self._named(bits, partly=cell.kind not in ("$dff", "$adff", "$memrd_v2"))
        if signal is None:
            signal = Net(self.fresh(), bits, {}), 0
            self.private[signal[0].name] = cell
        home, low = signal
        if len(home.bits) == len(bits):
            for net, n in self._candidates.get(bits[0], ()):
                if n == 0 and net.bits == bits:
                    home.attributes = net.attributes | home.attributes
        self._settle(home, low, bits)

    def _named(self, bits: Bits, *, partly: bool) -> tuple[Net, int] | None:
        """Return the best signal of the sources that these bits are, or are a part of."""
        signals = [
            (net, n)
            for net, n in self._candidates.get(bits[0], ())
            if net.bits[n : n + len(bits)] == bits and (partly or len(net.bits) == len(bits))
        ]
        ports = self.module.ports

        def rank(item: tuple[Net, int]) -> tuple[bool, bool, bool, int, str]:
            name = item[0].name
            exact = len(item[0].bits) == len(bits)
            return not exact, "$" in name, name not in ports, len(name), name

        return min(signals, key=rank, default=None)

    def _composites(self) -> Iterator[Net]:
        # Of those with equal bits, a port is the last.
        for net in sorted(self.module.nets.values(), key=lambda n: n.name in self.module.ports):
            if not net.is_public or net.name in self.homes:
                continue
            homes = [self.of[bit][0].name for bit in net.bits if bit in self.of]
            if len(set(homes)) > 1 or not self.private.keys().isdisjoint(homes):
                yield net

    def pieces(self, bits: Bits) -> Iterator[tuple[Net | None, int, int, Bits]]:
        """Yield the longest parts of a signal, the lowest first: home, position, repeats, bits."""
        n = 0
        while n < len(bits):
            bit, end = bits[n], n + 1
            if isinstance(bit, str):
                while end < len(bits) and isinstance(bits[end], str):
                    end += 1
                yield None, 0, 1, bits[n:end]
            else:
                home, low = self.of[bit]
                while end < len(bits) and self.of.get(bits[end]) == (home, low + end - n):
                    end += 1
                repeats = 1
                if end == n + 1:
                    repeats = next((m for m, b in enumerate(bits[n:]) if b != bit), len(bits) - n)
                    end = n + repeats
                yield home, low, repeats, bits[n : n + 1 if repeats > 1 else end]
            n = end

    def count(self, bits: Bits) -> None:
        """Count a use of the homes of a signal; a part of one, or a repeated one, counts twice."""
        if net := self.composites.get(bits):
            if net.name in self.read:
                return
            self.read[net.name] = net
        for home, _, repeats, part in self.pieces(bits):
            if home:
                self.uses[home.name] += 1 if repeats == 1 and part == home.bits else 2

    def text(
        self, bits: Bits, value: Callable[[Net, bool], str | None], defined: Net | None = None
    ) -> str:
        """Return a signal as text.

        ``value`` returns what a home that is read, as a whole or not, is replaced by, if anything;
        ``defined`` is the signal that the text defines.
        """
        composite = self.composites.get(bits)
        if composite and composite is not defined:
            return identifier(composite.name)
        parts = []
        for home, low, repeats, part in self.pieces(bits):
            if home is None:
                parts.append(constant(part))
                continue
            text = value(home, part == home.bits)
            if text is None:
                text = identifier(home.name)
                if len(part) > 1 and len(part) < len(home.bits):
                    text += f"[{low + len(part) - 1}:{low}]"
                elif len(part) < len(home.bits):
                    text += f"[{low}]"
            parts.append(text if repeats == 1 else f"{{{repeats}{{{text}}}}}")
        return parts[0] if len(parts) == 1 else f"{{{', '.join(reversed(parts))}}}"
