"""Verilog of a core, and what it depends on."""

import hashlib
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.back import verilog as backend
from amaranth.lib.wiring import Component

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.core import Core
from celosia.hw.flow.lint import clean
from celosia.hw.flow.sources import Source, separate, shortened
from celosia.hw.matrix import shared
from celosia.hw.matrix.twin import twin
from celosia.hw.memory import bank
from celosia.hw.merge import merged
from celosia.hw.pod import CORE, Pod
from celosia.hw.top import Top

TOP = "celosia"

#: Files and folders of hw that are no part of the core.
_APART = (
    "synthesis.py",
    "folded.py",
    "reference.py",
    "flow",
    "link.py",
    "pod.py",
    "windows.py",
    "joined.py",
    "litex",
)

#: A block that sets every word of a memory to zero, one statement a word.
_ZEROS = re.compile(
    r"initial begin\n\s+(\S+)\[0\] = (\d+'[dh]0+);\n(?:\s+\1\[(\d+)\] = \2;\n)+\s+end\n"
)

#: Words of a large memory.
_LARGE = 1024

#: A block that drives a constant, and the register that Yosys lets all other blocks wait for.
_CONSTANT = re.compile(r"(?m)^  always @\*\n    ([^=\n]+= \d+'[bdh][0-9a-f]+;)$")
_TRIGGER = re.compile(r"(?m)^  reg (\\\$auto\$verilog_backend\S+ ) = 0;\n")

#: A signal of no bits, which nothing refers to. Verilog has none; Yosys writes one of two bits.
_NO_BITS = re.compile(r"(?m)^  (?:wire|reg) \[-1:0\] [^;]+;\n")

#: Where RTLIL has a source; where Verilog has one in the middle of a statement; a bit repeated; a
#: register with its initial value.
_ATTRIBUTE = re.compile(r'(?m)^( *attribute \\src )"([^"]*)"')
_INSIDE = re.compile(r'(?m)^( *\S.*?)\(\* src = "([^"]*)" \*\) (.*)$')
_REPEATED = re.compile(r"(?<=[{,] )((?:[a-z_]\w*|\\\S+ )(?:\[\d+\])?)((?:, \1){3,})(?=[, ])")
_INITIAL = re.compile(r"(?m)^  reg ((?:signed )?(?:\[\d+:\d+\] )?)(\S+ ?) = (\d+'[^;]+);$")


class Emitter(rtlil.ModuleEmitter):
    """Amaranth's writer of modules, with the initial words of a memory written at once.

    Amaranth makes a net of each bit, which takes two fifths of the time of a core.
    """

    def emit_memory(self, cell_idx: int, cell: Any) -> None:
        """Write the initial words of a memory."""
        if not cell.width or not cell.depth:
            super().emit_memory(cell_idx, cell)
            return
        words = (f"{word % (1 << cell.width):0{cell.width}b}" for word in reversed(cell.init))
        ports = {
            "ADDR": self.sigspec(),
            "DATA": f"{cell.width * cell.depth}'{''.join(words)}",
            "EN": f"{cell.width}'{'1' * cell.width}",
        }
        parameters = {
            "MEMID": self.memories[cell_idx].memid,
            "ABITS": 0,
            "WIDTH": cell.width,
            "WORDS": cell.depth,
            "PRIORITY": 0,
        }
        self.builder.cell("$meminit_v2", ports=ports, parameters=parameters, src_loc=cell.src_loc)


rtlil.ModuleEmitter = Emitter


def _cleared(text: str) -> str:
    """Return Verilog that clears a memory in one line.

    Amaranth writes a statement for each word: a third of a million for a core of 16 × 16, which
    simulators and synthesis then read. The time that Yosys takes for the words of a memory grows
    with the square of their number, so synthesis does not see those of large memories, which
    bitstreams clear anyway.
    """

    def loop(match: re.Match[str]) -> str:
        name, zero, last = match.groups()
        block = (
            f"initial begin : zeros_of_{name}\n    integer n_of_{name};\n"
            f"    for (n_of_{name} = 0; n_of_{name} <= {last}; n_of_{name} = n_of_{name} + 1)\n"
            f"      {name}[n_of_{name}] = {zero};\n  end\n"
        )
        return f"\n`ifndef SYNTHESIS\n  {block}`endif\n" if int(last) >= _LARGE else block

    return _ZEROS.sub(loop, text)


def _driven(text: str) -> str:
    """Return Verilog whose constant blocks run once, as all others do.

    Where a part of a signal is constant, Yosys leaves out the trigger: the block would never run.
    """
    modules = text.split("\nendmodule")
    for n, module in enumerate(modules):
        trigger = _TRIGGER.search(module)
        if trigger:
            head = f"  always @* begin\n    if ({trigger[1]}) begin end\n    "
            modules[n] = _CONSTANT.sub(lambda match, head=head: f"{head}{match[1]}\n  end", module)
    return "\nendmodule".join(modules)


def tidy(text: str) -> str:
    """Return Verilog of Amaranth as simulators and synthesis read it best."""
    return _driven(_cleared(_NO_BITS.sub("", text)))


def convert(component: Component, *, name: str = TOP, simulated: bool = False) -> str:
    """Return the Verilog of a component as simulators and synthesis read it best.

    ``simulated``: a large array is its behavioural twin, see ``celosia.hw.matrix.twin``.
    """
    return _completed(tidy(backend.convert(component, name=name, emit_src=False)), simulated)


def _completed(text: str, simulated: bool = False) -> str:
    """Return Verilog after that of the large array and the large banks that it instantiates."""
    before = [bank.TEXT] if bank.NAME in text else []
    array = shared.array_in(text)
    if array and simulated:
        before.append(twin(array))
    elif array:
        found = shared.parts(array)
        before += [tidy(backend.convert(part, name=name, emit_src=False)) for name, part in found]
    return "\n".join((*before, merged(text) if array else text))


def convert_with_sources(component: Component, *, name: str = TOP) -> tuple[str, dict[str, Source]]:
    """Return the same Verilog, and the sources of its signals, see ``separate``."""
    text, sources = separate(backend.convert(component, name=name, emit_src=True))
    return _completed(tidy(text)), sources


def _modules(config: Config | PodConfig) -> list[tuple[str, Component]]:
    """Return the modules of a core, or of a pod: their names, and what to convert."""
    if isinstance(config, PodConfig):
        return [(CORE, Top(Core(config=config.core))), (TOP, Pod(config=config))]
    return [(TOP, Top(Core(config=config)))]


def verilog_with_sources(config: Config | PodConfig) -> tuple[str, dict[str, Source]]:
    """Return the same Verilog as ``verilog``, and the sources of its signals, see ``separate``."""
    text, sources = "", {}
    for name, part in _modules(config):
        more, found = convert_with_sources(part, name=name)
        text += more
        places = [name]
        if name == CORE and isinstance(config, PodConfig):
            places = [f"{TOP}.core_{n}" for n in range(config.cores)]
        sources |= {f"{place}.{key}": source for place in places for key, source in found.items()}
    return text, sources


def verilog(config: Config | PodConfig, *, simulated: bool = False) -> str:
    """Return the Verilog of a core or a pod; its top module is ``celosia``, see ``convert``."""
    found = _modules(config)
    return "".join(convert(part, name=name, simulated=simulated) for name, part in found)


def readable(component: Component, *, name: str = TOP) -> str:
    """Return Verilog of a component for people and linters, with the lines of its sources.

    It behaves as that of ``convert``. Signals that nothing reads are left out.
    """
    text = clean(rtlil.convert(component, name=name))
    text = _ATTRIBUTE.sub(lambda match: f'{match[1]}"{shortened(match[2])}"', text)
    # Without -noopt, Yosys shortens operands.
    passes = ("proc -nomux -norom -noopt", "memory_collect", "write_verilog -norename")
    script = "\n".join((f"read_rtlil <<rtlil\n{text}\nrtlil", *passes))
    text = find_yosys(lambda found: found >= (0, 40)).run(["-q", "-"], script, ignore_warnings=True)
    text = _INSIDE.sub(r"\1\3  // \2", tidy(text))
    text = _INITIAL.sub(r"  reg \1\2;\n  initial \2 = \3;", text)
    return _REPEATED.sub(lambda m: f"{{{1 + m[2].count(m[1])}{{{m[1]}}}}}", text)


def readable_verilog(config: Config | PodConfig) -> str:
    """Return the Verilog of a core or a pod as ``readable`` does."""
    return "".join(readable(part, name=name) for name, part in _modules(config))


@cache
def sources_digest(*, whole: bool = False) -> str:
    """Return a digest of everything that decides the Verilog of a core, sizes apart.

    A core that was built before is found without elaboration. Sources are read once a process.

    Parameters
    ----------
    whole : bool
        Of all gateware, not of that of a core alone.
    """
    digest = hashlib.sha256(version("amaranth").encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not whole and (relative.name in _APART or relative.parts[0] in _APART):
            continue
        digest.update(str(relative).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
