"""Reference pages of the instruction set and the registers, written from their tables.

``python docs/reference_pages.py`` writes isa.md and registers.md in ``docs/reference``.
"""

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from amaranth.hdl import Shape
from amaranth.lib import enum

from celosia.hw.arch import commands, isa, registers
from celosia.hw.arch.config import PROGRAM_BYTES, SEMAPHORES, Config
from celosia.hw.arch.isa import Error, Opcode
from celosia.hw.arch.presets import PRESETS, preset
from celosia.hw.arch.registers import Activity

FOLDER = Path(__file__).parent / "reference"

#: Command that writes the pages again.
COMMAND = "python docs/reference_pages.py"

MEANINGS: dict[Opcode, str] = {
    Opcode.NOP: "Does nothing; takes and posts semaphores like every instruction.",
    Opcode.FENCE: "Waits until every unit is idle and all queues are empty. The instructions "
    "after it start only then.",
    Opcode.HALT: "Waits like FENCE, then ends the program: the core sets `done` and, if "
    "enabled, raises the interrupt.",
    Opcode.LOAD: "Copies `rows` rows of `length` bytes from external memory into the unified "
    "buffer. Addresses and pitches are in bytes on both sides.",
    Opcode.LOAD_WEIGHTS: "Copies `tiles` tiles from external memory into the weight buffer. A tile "
    "is R rows of C weights, each row padded to whole beats of the bus.",
    Opcode.LOAD_PARAMS: "Copies the parameters of `count` channels (bias, multiplier, shifts), or "
    "`count` tables of 256 entries, from external memory into the vector unit.",
    Opcode.STORE: "Copies `rows` rows of `length` bytes from the unified buffer to external "
    "memory. Addresses and pitches are in bytes on both sides.",
    Opcode.MATMUL: "For each pixel, multiplies a vector of `taps` bytes of the unified buffer by "
    "⌈`taps` / R⌉ consecutive weight tiles. The C sums of a pixel go to one row of the "
    "accumulators. `run` and `skip` gather the taps of a convolution window.",
    Opcode.VECTOR: "For each pixel and channel, combines the elements of a window, adds the bias, "
    "requantises, clamps, and looks up a table. Source and destination are the accumulators or the "
    "unified buffer. See [Arithmetic](../design/arithmetic.md#what-is-computed).",
    Opcode.FILL: "Writes the constant `value` to every destination byte of its loops. Addresses "
    "are formed as in VECTOR.",
    Opcode.MOVE_WEIGHTS: "Copies rows of weight tiles from the unified buffer: pixel n is row n mod R "
    "of tile `tile` + ⌊n / R⌋. Bytes are not changed. A pixel is read as in MATMUL: with "
    "`run=1`, and `skip` · R = pitch − 1, its bytes are a column of a matrix. Rows of the last tile "
    "after the last pixel keep their weights. Only cores with `activation_weights` have it.",
    Opcode.SOFTMAX: "Computes SOFTMAX of `x_count` rows of `channels` int8, as LiteRT does: results "
    "have the scale 1/256 and the zero point −128. The exponentials are those of the four tables "
    "from `tables` on. Only cores with `softmax` have it.",
}

EXAMPLES: dict[Opcode, str] = {
    Opcode.NOP: "NOP wait=0 post=1+2",
    Opcode.FENCE: "FENCE",
    Opcode.HALT: "HALT  # the last instruction of a program",
    Opcode.LOAD: "LOAD external=0x4000 external_pitch=784 unified_pitch=800 rows=8 length=784 "
    "post=0",
    Opcode.LOAD_WEIGHTS: "LOAD_WEIGHTS external=0x10000 tile=4 tiles=49 post=1",
    Opcode.LOAD_PARAMS: "LOAD_PARAMS external=0x8000 kind=CHANNELS count=128 post=2",
    Opcode.STORE: "STORE wait=5 external=0x9000 external_pitch=10 unified=1024 unified_pitch=16 "
    "rows=8 length=10",
    Opcode.MATMUL: "MATMUL wait=0+1 x_count=8 x_stride=800 taps=784 tile=4 accumulator=0 post=3",
    Opcode.VECTOR: "VECTOR wait=2+3 source=ACCUMULATORS x_count=8 channels=10 source_x_stride=1 "
    "destination_base=1024 destination_x_stride=16 per_channel=1 zero_point=-3 post=5",
    Opcode.FILL: "FILL x_count=32 channels=16 destination_base=4096 destination_x_stride=16 "
    "value=-128",
    Opcode.SOFTMAX: "SOFTMAX wait=2 x_count=64 channels=49 source_x_stride=49 "
    "destination_x_stride=49 post=3",
    Opcode.MOVE_WEIGHTS: "MOVE_WEIGHTS wait=3 unified=2048 x_count=64 x_stride=16 taps=16 tile=8",
}

ERRORS: dict[Error, str] = {
    Error.NONE: "no error",
    Error.OPCODE: "a word whose code is neither an opcode nor a register",
    Error.FIELD: "a field outside its range, unused bits that are set, or words in a wrong order",
    Error.RANGE: "a byte, tile, row, channel or table outside its memory",
    Error.BUS: "a bus response of SLVERR or DECERR, or external memory outside the bounds",
    Error.WATCHDOG: "nothing moved for `watchdog` cycles",
    Error.SEMAPHORE: "a semaphore would count past 255",
    Error.PROGRAM: "the program ends without HALT",
    Error.MEMORY: "a word of a memory was read with wrong parity",
}

ACTIVITIES: dict[Activity, str] = {
    Activity.BUSY: "work was done",
    Activity.MEMORY: "waiting for a buffer port or the bus",
    Activity.WEIGHTS: "waiting for a weight tile, or between passes that add to the same sums",
    Activity.DRAIN: "everything requested, results in flight",
    Activity.EMPTY: "no instruction",
    Activity.SEMAPHORE: "waiting for semaphore s, the lowest without a count",
}

#: Sizes that bound a field, as the pages write them.
_SIZES: dict[str, Callable[[Config], int]] = {
    "unified_bytes": lambda config: config.unified_bytes,
    "unified_rows": lambda config: config.unified_rows,
    "weight_tiles": lambda config: config.weight_tiles,
    "accumulator_rows": lambda config: config.accumulator_rows,
    "parameter_channels": lambda config: config.parameter_channels,
    "tables": lambda config: config.tables,
    "lanes": lambda config: config.lanes,
    "columns": lambda config: config.columns,
    "bus_bytes": lambda config: config.bus_bytes,
    "max(16, bus_bytes)": lambda config: max(16, config.bus_bytes),
}

#: Cores whose limits distinguish all the sizes.
_PROBES = (
    *PRESETS.values(),
    preset("edge,unified_bytes=1040,weight_tiles=77,parameter_channels=24,tables=9,lanes=4"),
    preset("tpu_v1,weight_tiles=99,parameter_channels=512,tables=200,bus_bytes=32,lanes=64"),
)


def _symbol(values: list[int], greatest: int) -> str:
    """Return the text for a bound that has ``values`` on ``_PROBES``.

    Raises
    ------
    ValueError
        If no size of a core has these values.
    """
    if len(set(values)) == 1:
        return str(values[0])
    for name, size in _SIZES.items():
        for less in (0, 1):
            exact = [size(config) - less for config in _PROBES]
            if values == [min(greatest, value) for value in exact]:
                text = f"`{name}` − 1" if less else f"`{name}`"
                return text if values == exact else f"{text}, at most {greatest}"
    raise ValueError(f"limit: wanted a size of a core, got {values}")


def range_text(opcode: Opcode, field: isa.Field) -> str:
    """Return the values that a field may take, in terms of the sizes of a core."""
    if not isinstance(field.shape, int):
        return " ".join(f"`{member.name}`" for member in field.shape)
    limits = [isa.limits(config)[opcode][field.name] for config in _PROBES]
    highs = [limit.high for limit in limits]
    text = f"{limits[0].low} to {_symbol(highs, field.representable[1])}"
    multiple = _symbol([limit.multiple for limit in limits], 1 << 32)
    return text if multiple == "1" else f"{text}; a multiple of {multiple}"


def _table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    lines = [[str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def _field_row(opcode: Opcode, field: isa.Field) -> list[object]:
    default: object = field.default
    if not isinstance(field.shape, int):
        default = f"`{field.shape(field.default).name}`"
    signed = ", signed" if isinstance(field.shape, int) and field.shape < 0 else ""
    bits = f"{Shape.cast(field.amaranth_shape).width}{signed}"
    return [f"`{field.name}`", bits, default, range_text(opcode, field), field.text]


_COLUMNS = ("field", "bits", "default", "range", "meaning")


def _register_row(register: commands.UnitRegister) -> list[object]:
    """Return code, name, bits and contents of a register of a unit."""
    parts, at = [], 0
    for field, low, width in register.parts:
        text = f"`{field.name}`"
        if low or width < Shape.cast(field.amaranth_shape).width:
            text += f" bits {low + width - 1}:{low}"
        if len(register.parts) > 1:
            text += f" at {at}"
        parts.append(text)
        at += width
    return [register.code, f"`{register.name}`", register.width, ", ".join(parts)]


def _encoding() -> list[str]:
    """Return the chapter about words and registers."""
    value = commands.CODE_BITS
    lines = [
        "## Encoding",
        "",
        f"A program is a sequence of little-endian words of 32 bits. Bits {value - 1}:0 are the",
        f"code, bits 31:{value} the value.",
        "",
        "- The code of an opcode starts an instruction (GO). `wait` is a mask in bits "
        f"{value + SEMAPHORES - 1}:{value},",
        f"  `post` one in bits {value + 2 * SEMAPHORES - 1}:{value + SEMAPHORES}; bit 31 is zero.",
        "- Other codes set a register of a unit to the value (SET). Unused bits are zero.",
        "- An instruction is its SETs, of registers of its unit, then GO. Each register is set at",
        "  most once, in the order of the codes.",
        "- Registers keep their value for later instructions of the unit. When a program starts,",
        "  they have the defaults of their fields.",
        f"- A program begins at a multiple of {PROGRAM_BYTES} bytes. The core reads whole blocks of "
        f"{PROGRAM_BYTES} bytes.",
        "",
        "`celosia.hw.arch.commands` encodes and decodes programs.",
        "",
    ]
    for unit, registers_of_unit in commands.REGISTERS.items():
        lines += [f"### Registers of the {unit.name.lower()} unit", ""]
        lines += _table(
            ("code", "register", "bits", "fields"), map(_register_row, registers_of_unit)
        )
    return lines


def _instruction(opcode: Opcode) -> list[str]:
    unit = isa.UNITS[opcode].name.lower()
    lines = [f"### {opcode.name}", "", f"Opcode {opcode.value}, {unit}.", ""]
    lines += [*textwrap.wrap(MEANINGS[opcode], 100, break_on_hyphens=False), ""]
    lines += ["```asm", EXAMPLES[opcode], "```", ""]
    if isa.FORMATS[opcode]:
        fields = isa.FORMATS[opcode]
        lines += _table(_COLUMNS, [_field_row(opcode, field) for field in fields])
    return lines


def _enumeration(kind: type[enum.Enum]) -> list[str]:
    words = (kind.__doc__ or "").replace("``", "`")
    members = ", ".join(f"`{member.name}` {member.value}" for member in kind)
    return [kind.__name__, members, words.rstrip(".")]


def reference() -> str:
    """Return the page of the instruction set, Markdown."""
    masks = f"numbers 0 to {SEMAPHORES - 1}"
    header = [(f"`{field.name}`", masks, field.text) for field in isa.HEADER_FIELDS[1:]]
    kinds = (isa.Kind, isa.Space, isa.Window, isa.Mode, isa.Rounding, isa.Unit)
    lines = [
        "# Instruction set",
        "",
        f"Written by `{COMMAND}` from `hw/arch/formats.py`; do not edit.",
        "",
        "An instruction is an opcode and a value for each of its fields. [Encoding](#encoding) defines",
        "its words.",
        "",
        "- Sizes in ranges are fields of the [configuration](configuration.md#fields).",
        "- R is `rows`, C is `columns`.",
        "",
        "[Instructions](../design/instructions.md#effects) defines the effect of each",
        "instruction, and the [formats](../design/memories.md#external-formats) of tiles,",
        "parameters and tables in external memory.",
        "",
        "## Assembly",
        "",
        "`celosia assemble` translates text to words, `celosia disassemble` words to text.",
        "",
        "- One line is one instruction: the opcode, then `field=value` in any order.",
        "- Fields that are not given have their default.",
        "- `#` starts a comment.",
        "- Numbers are decimal, or hexadecimal with `0x`. An enumerated field takes a name.",
        "- `wait` and `post` list semaphores, for instance `wait=0+3`.",
        "",
        "## Semaphores",
        "",
        "Every instruction has these fields. Their default is none.",
        "",
        *_table(("field", "semaphores", "meaning"), header),
        "## Instructions",
        "",
    ]
    for opcode in Opcode:
        lines += _instruction(opcode)
    lines += [
        "Two rules connect fields of VECTOR:",
        "",
        "- `channels` is at most `columns` if source or destination is `ACCUMULATORS`.",
        "- `mode` is `OVERWRITE` if both are.",
        "",
        "Only cores with `elementwise_products` have the modes `MULTIPLY` and `SQUARED_DIFFERENCE`.",
        "Others report FIELD.",
        "",
        "## Enumerations",
        "",
    ]
    lines += _table(("name", "values", "meaning"), map(_enumeration, kinds))
    rows = [(error.value, f"`{error.name}`", text) for error, text in ERRORS.items()]
    lines += ["## Errors", "", *_table(("code", "name", "when"), rows), *_encoding()]
    return "\n".join(lines).rstrip() + "\n"


def _reset(register: registers.Register) -> str:
    return "of the core" if register.name == "fingerprint" else f"0x{register.init:X}"


def register_reference() -> str:
    """Return the page of the registers, Markdown."""
    rows = [
        (f"0x{r.offset:02X}", f"`{r.name}`", r.access, _reset(r), r.text)
        for r in registers.REGISTERS
    ]
    last = Activity.SEMAPHORE.value + SEMAPHORES - 1
    counters = [
        (f"{a.value} to {last}", "`semaphore_<s>`", text)
        if a is Activity.SEMAPHORE
        else (a.value, f"`{a.name.lower()}`", text)
        for a, text in ACTIVITIES.items()
    ]
    units = ", ".join(f"{unit.value} {unit.name.lower()}" for unit in isa.Unit)
    lines = [
        "# Registers",
        "",
        f"Written by `{COMMAND}` from `hw/arch/registers.py`; do not edit.",
        "",
        "A register has 32 bits and a byte address. The host uses AXI4-Lite.",
        "",
        *_table(
            ("access", "meaning"),
            (
                ("`r`", "read only"),
                ("`rw`", "read and write"),
                ("`w1`", "writing ones acts; reading returns the state"),
            ),
        ),
        *_table(("address", "register", "access", "at reset", "meaning"), rows),
        "The codes of `error_code` are in [Errors](isa.md#errors), those of `error_unit` below.",
        "",
        "## Counters",
        "",
        f"Counter `a` of unit `u` is at 0x{registers.COUNTERS:X} + "
        f"(`u` · {registers.COUNTERS_PER_UNIT} + `a`) · 4.",
        f"The units are {units}.",
        "",
        "In every cycle of a running program exactly one counter of each unit counts. The counters",
        "of one unit add up to `cycles`. In a core with `counters=none` all of them read as 0;",
        "`cycles` counts in every core.",
        "",
        *_table(("`a`", "name", "the unit in that cycle"), counters),
    ]
    return "\n".join(lines).rstrip() + "\n"


#: The pages, by their names in ``docs/reference``.
PAGES: dict[str, Callable[[], str]] = {"isa.md": reference, "registers.md": register_reference}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
