"""Verilog without what linters warn of: signals that nothing reads, operands of unequal width.

Amaranth declares each field of a structure and each port in every module that it passes, though
few are read there, and it shortens operands. Both are mended in RTLIL, the text between Amaranth
and Yosys, in which each module has one instance. Yosys itself cleans no module with processes.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

_NAME = re.compile(r"[\\$]\S+")
_PORT = re.compile(r"\b(input|output) \d+ +")
_PARAMETER = re.compile(r"parameter (?:signed )?\\(\S+) (\d+)$")
#: A field of a signal: the signal, the field, its bits.
_FIELD = re.compile(r"connect (\\[^.[ ]+)(?:\.|(?=\[))(\S+) \1 (\[\S+\])$")
_CONSTANT = re.compile(r"\d+'([01]+)$")
#: Cells that act by themselves; they and what they read stay.
_ACTING = ("$memwr_v2", "$meminit_v2", "$check", "$print")
_COMPARISONS = ("$eq", "$ne", "$lt", "$le", "$gt", "$ge")
_EXTENDED = (*_COMPARISONS, "$add", "$sub", "$and", "$or", "$xor", "$shl", "$neg", "$not")

#: A module and a wire in it.
_Node = tuple[str, str]


@dataclass
class _Item:
    """A wire, memory, cell, process or connection; ``outputs`` are the ports that a cell drives."""

    lines: list[str]
    kind: str
    name: str
    outputs: Collection[str] = ()
    connections: dict[str, str] = field(default_factory=dict)

    def change(self, head: str, value: object) -> None:
        """Change the line that begins with ``head``; None removes it."""
        new = [] if value is None else [f"    {head} {value}"]
        at = next(n for n, line in enumerate(self.lines) if line.startswith(f"    {head} "))
        self.lines[at : at + 1] = new

    def connect(self, port: str, value: str | None) -> None:
        """Change what a port of a cell is connected to; None removes the port."""
        self.change(f"connect {port}", value)
        if value is None:
            del self.connections[port]
        else:
            self.connections[port] = value

    def wires(self) -> tuple[set[str], set[str]]:
        """Return the names of the wires that the item drives, and of those that it reads."""
        drives: set[str] = set()
        reads: set[str] = set()
        for line in self.lines if self.kind in ("connect", "process") else ():
            word, _, rest = line.strip().partition(" ")
            if word in ("assign", "connect"):
                target, value = _sides(rest)
                drives.add(target)
                reads |= _names(value)
            elif word == "switch":
                reads |= _names(rest)
        for port, value in self.connections.items():
            (drives if port in self.outputs else reads).update(_names(value))
        return drives, reads


@dataclass
class _Module:
    """A module: its first lines, its items, its ports with their directions."""

    head: list[str]
    items: list[_Item] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([*self.head, *(o for item in self.items for o in item.lines), "end\n"])


def _read(text: str) -> dict[str, _Module]:
    """Return the modules of RTLIL as Amaranth writes it, by name."""
    modules: dict[str, _Module] = {}
    module, pending = _Module([]), []
    lines = iter(text.split("\n"))
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        if kind in ("", "end"):
            continue
        pending.append(line)
        if kind == "attribute":
            continue
        if kind == "module":
            module = modules[rest] = _Module(pending)
        else:
            while kind in ("cell", "process") and pending[-1] != "  end":
                pending.append(next(lines))
            module.items.append(_item(pending, kind, rest.split()))
            if match := _PORT.search(line):
                module.ports[module.items[-1].name] = match[1]
        pending = []
    for module in modules.values():
        for item in module.items:
            if item.kind in modules:
                ports = modules[item.kind].ports.items()
                item.outputs = {port for port, flow in ports if flow == "output"}
    return modules


def _item(lines: list[str], kind: str, words: list[str]) -> _Item:
    """Return an item of these lines; the outputs of an instance are not known yet."""
    if kind == "connect":
        return _Item(lines, kind, words[0])
    if kind != "cell":
        return _Item(lines, kind, words[-1])
    item = _Item(lines, words[0], words[1])
    parts = (line.split(None, 2) for line in lines if line.startswith("    connect "))
    item.connections = {port: value for _, port, value in parts}
    if words[0].startswith("$") and words[0] not in _ACTING:
        item.outputs = ("\\Y", "\\Q", "\\DATA")
    return item


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _sides(text: str) -> tuple[str, str]:
    """Return the name that an assignment drives, and the text of its value."""
    target, _, value = text.partition(" ")
    return target, value.partition("] ")[2] if value.startswith("[") else value


def _note_fields(module: _Module) -> None:
    """Note the fields of a signal in its attributes: nothing reads the wires named after them."""
    fields: dict[str, list[str]] = {}
    for item in module.items:
        if item.kind == "connect" and (match := _FIELD.match(item.lines[-1])):
            fields.setdefault(match[1], []).append(f"{match[2]} {match[3]}")
    for item in module.items:
        if item.kind == "wire" and item.name in fields:
            item.lines.insert(0, f'  attribute \\fields "{", ".join(fields[item.name])}"')


def _edges(modules: dict[str, _Module]) -> Iterator[tuple[_Node | None, _Node]]:
    """Yield each wire that depends on another one; None stands for what acts by itself."""
    top = next(iter(modules))
    for port, flow in modules[top].ports.items():
        if flow == "output":
            yield None, (top, port)
    for name, module in modules.items():
        for item in module.items:
            if item.kind in modules:
                for port, value in item.connections.items():
                    for wire in _names(value):
                        here, inside = (name, wire), (item.kind, port)
                        yield (here, inside) if port in item.outputs else (inside, here)
            elif item.kind not in ("wire", "memory"):
                # What drives nothing here acts by itself: memories, primitives of a vendor.
                drives, reads = item.wires()
                for driven in drives or (None,):
                    for wire in reads:
                        yield (name, driven) if driven else None, (name, wire)


def _live(modules: dict[str, _Module]) -> set[_Node]:
    """Return the wires that outputs of the top module and memories depend on."""
    needs: dict[_Node | None, list[_Node]] = {}
    for node, needed in _edges(modules):
        needs.setdefault(node, []).append(needed)
    found: set[_Node] = set()
    waiting = list(needs.get(None, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += needs.get(node, ())
    return found


def _prune(modules: dict[str, _Module]) -> None:
    """Remove what nothing reads: wires, cells, ports, modules."""
    live = _live(modules)
    top = next(iter(modules))
    outside = {
        (item.kind, port): any((name, wire) in live for wire in _names(value))
        for name, module in modules.items()
        for item in module.items
        if item.kind in modules
        for port, value in item.connections.items()
    }

    def is_port(module: str, port: str) -> bool:
        output = modules[module].ports[port] == "output"
        return module == top or (outside[module, port] if output else (module, port) in live)

    kept = {name: [p for p in m.ports if is_port(name, p)] for name, m in modules.items()}
    for name, module in modules.items():
        items, module.items = module.items, []
        for item in items:
            if item.kind in modules:
                for port in [p for p in item.connections if p not in kept[item.kind]]:
                    item.connect(port, None)
                stays = bool(item.connections)
            elif item.kind == "wire":
                stays = (name, item.name) in live or item.name in kept[name]
                if item.name in module.ports and item.name not in kept[name]:
                    item.lines[-1] = _PORT.sub("", item.lines[-1])
            else:
                drives, _ = item.wires()
                stays = not drives or any((name, wire) in live for wire in drives)
            if stays:
                module.items.append(item)
    for name in [name for name, ports in kept.items() if not ports]:
        del modules[name]


def _extended(value: str, width: int, wanted: int, *, signed: bool) -> str:
    """Return an operand that is as wide as wanted."""
    more = wanted - width
    if more <= 0:
        return value
    if not width:
        return f"{wanted}'{'0' * wanted}"
    if match := _CONSTANT.match(value):
        return f"{wanted}'{(match[1][0] if signed else '0') * more}{match[1]}"
    inner = value[2:-2] if value.startswith("{") else value
    upper = " ".join([_sign(inner)] * more) if signed else f"{more}'{'0' * more}"
    return f"{{ {upper} {inner} }}"


def _sign(value: str) -> str:
    """Return the highest bit of a signal."""
    name, _, rest = value.partition(" ")
    if match := _CONSTANT.match(name):
        return f"1'{match[1][0]}"
    assert rest.startswith("["), value
    return f"{name} [{rest[1:].partition(']')[0].partition(':')[0]}]"


def _sizes(item: _Item) -> dict[str, int]:
    """Return the parameters of an operator."""
    numbers = (_PARAMETER.match(line.strip()) for line in item.lines)
    return {match[1]: int(match[2]) for match in numbers if match}


def _shift_whole(module: _Module, item: _Item) -> None:
    """Let a shift keep all bits of its operand, of which readers take the lower ones."""
    sizes, name = _sizes(item), item.connections["\\Y"]
    if sizes["Y_WIDTH"] < sizes["A_WIDTH"] and name.startswith("$"):
        item.change("parameter \\Y_WIDTH", sizes["A_WIDTH"])
        wire = next(each for each in module.items if each.name == name and each.kind == "wire")
        wire.lines[-1] = f"  wire width {sizes['A_WIDTH']} {name}"


def _widen(item: _Item) -> None:
    """Extend the operands of an operator to the width that its result has."""
    sizes = _sizes(item)
    operands = ("A",) if item.kind in ("$shl", "$neg", "$not") else ("A", "B")
    wanted = max(sizes[f"{o}_WIDTH"] for o in operands)
    if item.kind not in _COMPARISONS:
        wanted = max(wanted, sizes["Y_WIDTH"])
    for operand in operands:
        width, signed = sizes[f"{operand}_WIDTH"], bool(sizes[f"{operand}_SIGNED"])
        value = item.connections[f"\\{operand}"]
        item.connect(f"\\{operand}", _extended(value, width, wanted, signed=signed))
        item.change(f"parameter \\{operand}_WIDTH", wanted)


def _fill(item: _Item) -> None:
    """Let an AND of no bits be one: Yosys writes no bits as a zero."""
    if not _sizes(item)["A_WIDTH"]:
        item.connect("\\A", "1'1")
        item.change("parameter \\A_WIDTH", 1)


def clean(text: str) -> str:
    """Return RTLIL of the same behaviour, in which all is read, and operands have equal widths.

    Parameters
    ----------
    text : str
        As Amaranth writes it, the top module first.
    """
    modules = _read(text)
    for module in modules.values():
        _note_fields(module)
    _prune(modules)
    for module in modules.values():
        for item in module.items:
            if item.kind in _EXTENDED:
                _widen(item)
            elif item.kind == "$shift":
                _shift_whole(module, item)
            elif item.kind == "$reduce_and":
                _fill(item)
    return "\n".join(map(str, modules.values()))
