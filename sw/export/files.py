"""Files that ``celosia verilog`` writes besides the Verilog itself."""

from importlib.resources import files

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.sw.export.registers import c_constants, system_rdl
from celosia.sw.version import __version__

#: Sources of the driver in C, in this folder; ``celosia_registers.h`` is written for them.
DRIVER = ("celosia.h", "celosia.c")

#: Bench of the core in Verilog, in this folder as ``bench.v``.
BENCH = "celosia_bench.v"

#: Rules of Verilator's lint that the Verilog breaks on purpose, where, and why.
_WAIVERS = (
    ("DECLFILENAME", "", "One file holds all modules."),
    ("CASEOVERLAP", "", "One select of a multiplexer is set, or none."),
    ("UNSIGNED", "", "A limit below all values that this configuration has."),
    ("CMPCONST", "", "A limit above all values that this configuration has."),
    (
        "UNUSEDSIGNAL",
        "Bits of signal*",
        "A carry, or a field of a structure that only others read.",
    ),
    (
        "UNUSEDSIGNAL",
        "*'_*_'*",
        "An output of an instance that nothing reads, or bits of a result.",
    ),
    (
        "UNOPTFLAT",
        "",
        "Bits of a structure depend on other bits of it; every synthesis checks that.",
    ),
    ("UNUSEDSIGNAL", "*'m_axi__bid'*", "Write responses come in order; the bus has the port."),
    ("UNUSEDSIGNAL", "*'port_*__arsize*'", "Cores of a pod on one port: all beats are whole."),
    ("UNUSEDSIGNAL", "*'port_*__arburst*'", "Cores of a pod on one port: all bursts are INCR."),
)

_CORE = """\
CAPI=2:
name: celosia:celosia:{name}:{version}
description: Celosia, an open tensor processing unit ({preset})

filesets:
  rtl:
    files:
      - {verilog}: {{file_type: verilogSource}}
  waivers:
    files:
      - {waivers}: {{file_type: vlt}}
  bench:
    files:
      - {bench}: {{file_type: verilogSource}}
  registers:
    files:
      - {registers}: {{file_type: user}}
  driver:
    files:
      - celosia.c: {{file_type: cSource}}
      - celosia.h: {{file_type: cSource, is_include_file: true}}
      - celosia_registers.h: {{file_type: cSource, is_include_file: true}}

parameters:
  BYTES: {{datatype: int, paramtype: vlogparam, description: bytes of a beat of the memory}}
  WORDS: {{datatype: int, paramtype: vlogparam, description: words of 4 bytes in memory}}
  program: {{datatype: file, paramtype: plusarg, description: contents of the memory}}
  inputs: {{datatype: file, paramtype: plusarg, description: more contents of the memory}}
  once: {{datatype: str, paramtype: plusarg, description: address of the first program}}
  once_words: {{datatype: int, paramtype: plusarg, description: its length}}
  each: {{datatype: str, paramtype: plusarg, description: address of the second program}}
  each_words: {{datatype: int, paramtype: plusarg, description: its length}}
  outputs: {{datatype: str, paramtype: plusarg, description: address of bytes to print}}
  bytes: {{datatype: int, paramtype: plusarg, description: how many}}

targets:
  default: &lint
    description: Lint with Verilator
    filesets: [waivers, rtl]
    toplevel: celosia
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
  lint: *lint
  sim:
    description: Simulate with Icarus Verilog
    filesets: [rtl, bench]
    toplevel: bench
    parameters: [BYTES={bytes}, WORDS, program, inputs, once, once_words, each, each_words, outputs, bytes]
    flow: sim
    flow_options:
      tool: icarus
      iverilog_options: [-g2012]
  synth:
    description: Synthesise with Yosys for ECP5
    filesets: [rtl]
    toplevel: celosia
    flow: generic
    flow_options:
      tool: yosys
      arch: ecp5
"""


def verilog_header(
    config: Config,
    pod: PodConfig | None = None,
    block: str | None = None,
    *,
    standard: bool = False,
) -> str:
    """Return the comment at the head of the Verilog of a core, of a pod of it, or of a block."""
    options = f" --cores {pod.cores} --ports {pod.ports}" if pod else ""
    options += f" --block {block}" if block else ""
    options += " --standard-axi" * standard
    ports = [
        "clk: the only clock. rst: synchronous, active high. irq: level, active high.",
        "s_axil: AXI4-Lite slave, 32 bits, 12 address bits: the registers.",
        f"m_axi: AXI4 master, {8 * config.bus_bytes} bits, 32 address bits: external memory.",
    ]
    if standard:
        ports.append("celosia_axi: the same ports as aclk, aresetn (active low), s_axi_*, m_axi_*.")
    lines = [
        f"Celosia {__version__}: an open tensor processing unit. License: Apache-2.0.",
        f"celosia verilog --preset {config.name}{options}",
        f"Fingerprint of its programs: {config.fingerprint:#010x}",
        "",
        *(f"{name} = {value}" for name, value in config.given().items()),
        "",
        *(ports[:1] if block else ports),
        "Comments: the file and line in Python, and the fields of a signal with their bits.",
    ]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def waivers(verilog: str) -> str:
    """Return the waivers for Verilator's lint of a Verilog file of this name."""
    lines = ["`verilator_config"]
    for rule, match, reason in _WAIVERS:
        condition = f' -match "{match}"' if match else ""
        lines += [f"// {reason}", f'lint_off -rule {rule} -file "*{verilog}"{condition}']
    return "\n".join(lines) + "\n"


def verilog_files(config: Config, verilog: str, *, everything: bool) -> dict[str, str]:
    """Return the files beside a Verilog file, by name.

    ``config``: sizes of the core; ``verilog``: name of the Verilog file; the others are named after
    it; ``everything``: not only the waivers of Verilator, but also a core file of FuseSoC, a bench,
    the registers in SystemRDL, and the driver in C.
    """
    stem = verilog.removesuffix(".v")
    lint, registers = f"{stem}.vlt", f"{stem}.rdl"
    contents = {lint: waivers(verilog)}
    if everything:
        name, _, changes = config.name.partition(",")
        contents[f"{stem}.core"] = _CORE.format(
            name=f"{name}_{config.fingerprint:08x}" if changes else name,
            preset=config.name,
            version=__version__,
            verilog=verilog,
            waivers=lint,
            registers=registers,
            bench=BENCH,
            bytes=config.bus_bytes,
        )
        contents[registers] = system_rdl()
        contents["celosia_registers.h"] = c_constants()
        driver = files("celosia.sw.driver")
        contents |= {source: (driver / source).read_text() for source in DRIVER}
        contents[BENCH] = (files("celosia.sw.export") / "bench.v").read_text()
    return contents
