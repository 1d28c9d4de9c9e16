"""The registers as SystemRDL and as constants in C, both from ``celosia.hw.arch.registers``."""

from collections.abc import Iterator

from celosia.hw.arch import isa, registers
from celosia.hw.arch.registers import FLAGS, REGISTERS, Register, activity_names

#: Access of software and hardware to a field, by the access of its register.
_ACCESS = {"r": "sw = r; hw = w;", "rw": "sw = rw; hw = r;"}
#: Bits that act when ones are written.
_ACTS = {
    "control": "sw = rw; hw = r; singlepulse;",
    "interrupt": "sw = rw; hw = w; onwrite = woclr;",
}
_UNITS = len(isa.Unit)


def _fields(register: Register) -> Iterator[str]:
    """Yield the fields of a register."""
    access = _ACTS.get(register.name) or _ACCESS[register.access]
    if register.name in FLAGS:
        for flag in FLAGS[register.name]:
            bit = flag.value.bit_length() - 1
            yield f"field {{ {access} }} {flag.name}[{bit}:{bit}] = 0;"
        return
    # What only gateware changes has no reset value; a constant has nothing else.
    if register.access == "r" and register.init:
        access = "sw = r; hw = na;"
    low = register.lowest
    reset = f" = 0x{register.init >> low:X}" if register.init or register.access != "r" else ""
    yield f"field {{ {access} }} value[31:{low}]{reset};"
    if below := register.init & (1 << low) - 1:
        yield f"field {{ sw = r; hw = na; }} constant[{low - 1}:0] = 0x{below:X};"


def system_rdl() -> str:
    """Return the address map of a core as SystemRDL 2.0."""
    lines = ["addrmap celosia {", '    name = "Celosia";']
    lines += ["    default regwidth = 32;", ""]
    for register in REGISTERS:
        lines += ["    reg {", f'        desc = "{register.text}";']
        lines += [f"        {field}" for field in _fields(register)]
        lines += [f"    }} {register.name} @ 0x{register.offset:02X};", ""]
    units = ", ".join(f"{unit.value} {unit.name.lower()}" for unit in isa.Unit)
    classes = ", ".join(f"{number} {name}" for number, name in activity_names().items())
    lines += [
        "    regfile {",
        f'        desc = "Cycles of a unit ({units}) by class: {classes}.";',
        "        reg { field { sw = r; hw = w; } value[31:0]; } "
        f"cycles[{registers.COUNTERS_PER_UNIT}];",
        f"    }} counters[{_UNITS}] @ 0x{registers.COUNTERS:X};",
        "};",
    ]
    return "\n".join(lines) + "\n"


def _defined(name: str, value: int, text: str = "") -> str:
    line = f"#define CELOSIA_{name.upper()} 0x{value:X}u"
    return f"{line} /* {text} */" if text else line


def c_constants() -> str:
    """Return a header of C with the offsets, bits and codes of the registers."""
    lines = [
        "/* Registers of Celosia: offsets in bytes, bits, codes. Written by celosia verilog. */"
    ]
    lines += ["#ifndef CELOSIA_REGISTERS_H", "#define CELOSIA_REGISTERS_H", ""]
    lines += [_defined(f"{r.name}_OFFSET", r.offset, r.text) for r in REGISTERS]
    lines += ["", _defined("MAGIC", registers.MAGIC), _defined("VERSION", registers.VERSION)]
    lines += [_defined("COUNTERS_OFFSET", registers.COUNTERS)]
    lines += [_defined("COUNTERS_PER_UNIT", registers.COUNTERS_PER_UNIT), ""]
    flags = {kind.__name__: kind for kind in FLAGS.values()}
    for kind, members in (*flags.items(), ("ERROR_CODE", isa.Error), ("UNIT", isa.Unit)):
        lines += [_defined(f"{kind}_{member.name}", member.value) for member in members]
        lines.append("")
    lines += [_defined(f"CYCLES_{name}", number) for number, name in activity_names().items()]
    return "\n".join([*lines, "", "#endif"]) + "\n"
