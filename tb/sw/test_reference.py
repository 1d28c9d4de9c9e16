"""The reference pages say what the tables say, and the tables are sound."""

import pytest
import reference_pages as reference
from amaranth.hdl import Shape

from celosia.hw.arch import commands, isa, registers
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.isa import Error, Opcode
from celosia.hw.arch.presets import PRESETS, preset
from celosia.hw.arch.registers import COUNTERS, COUNTERS_PER_UNIT, OFFSETS, REGISTERS, Activity

#: With all options.
CONFIGS = [
    preset(f"{name},requantizer=pipelined,activation_weights=true,softmax=true")
    for name in (*PRESETS, "micro,columns=6,unified_bytes=520,accumulator_depth=256,weight_tiles=5")
]


@pytest.mark.parametrize("name", reference.PAGES)
def test_page_is_not_stale(root, name):
    page = root / "docs" / "reference" / name
    fresh = page.is_file() and page.read_text(encoding="utf-8") == reference.PAGES[name]()
    assert fresh, f"docs/reference/{name} is stale: run `{reference.COMMAND}`"


def test_module_writes_the_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    reference.main()
    assert {page.name for page in tmp_path.iterdir()} == set(reference.PAGES)
    for name, page in reference.PAGES.items():
        assert (tmp_path / name).read_text(encoding="utf-8") == page()


def test_tables_of_the_pages_are_complete():
    assert set(reference.MEANINGS) == set(reference.EXAMPLES) == set(Opcode)
    assert set(reference.ERRORS) == set(Error)
    assert set(reference.ACTIVITIES) == set(Activity) - {Activity.IDLE}
    page = reference.reference()
    for opcode in Opcode:
        assert f"\n### {opcode.name}\n" in page
        lines = page.split(f"\n### {opcode.name}\n")[1].split("\n###")[0].splitlines()
        for field in isa.FORMATS[opcode]:
            width = isa.LAYOUTS[opcode][field.name].width
            row = next(line for line in lines if line.startswith(f"| `{field.name}`"))
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert cells[1].split(",")[0] == str(width)
            assert len(cells) == 5 and cells[4] == field.text
    for group in commands.REGISTERS.values():
        for register in group:
            assert f"| {register.code} | `{register.name}` | {register.width} |" in page
    listed = reference.register_reference()
    assert all(f"`{register.name}`" in listed for register in REGISTERS)


@pytest.mark.parametrize("opcode", Opcode)
def test_example_is_legal_and_round_trips(opcode):
    instruction = isa.assemble_line(reference.EXAMPLES[opcode])
    assert instruction is not None and instruction.opcode is opcode
    isa.check(instruction, preset("edge,activation_weights=true,softmax=true"))
    assert isa.assemble_line(isa.disassemble(instruction)) == instruction
    assert commands.decode(commands.encode([instruction])) == [instruction]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_ranges_of_the_page_are_the_limits(config):
    for opcode, fields in isa.FORMATS.items():
        for field in fields:
            if not isinstance(field.shape, int):
                continue
            bounds, _, multiple = reference.range_text(opcode, field).partition("; a multiple of ")
            low, high = bounds.split(" to ")
            high, _, most = high.partition(", at most ")
            got = isa.Limit(int(low), evaluate(high, config), evaluate(multiple or "1", config))
            if most:
                got = got._replace(high=min(got.high, int(most)))
            assert got == isa.limits(config)[opcode][field.name], (opcode, field.name)


def evaluate(text, config):
    """Return the number that an expression of the page is on ``config``."""
    names = {name: getattr(config, name) for name in dir(config) if not name.startswith("_")}
    expression = text.replace("`", "").replace("−", "-")
    return eval(expression, {"__builtins__": {}, "max": max}, names)


def test_a_bound_that_no_size_gives_is_refused():
    values = list(range(1000, 1000 + len(reference._PROBES)))
    with pytest.raises(ValueError, match="wanted a size of a core, got"):
        reference._symbol(values, 1 << 32)


def test_registers_are_apart_aligned_and_below_the_counters():
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len(offsets) == len(OFFSETS)
    assert all(offset % 4 == 0 and 0 <= offset < COUNTERS for offset in offsets)
    assert {register.access for register in REGISTERS} <= {"r", "rw", "w1"}
    assert all(0 <= register.init < 1 << 32 for register in REGISTERS)
    end = COUNTERS + len(isa.Unit) * COUNTERS_PER_UNIT * 4
    assert end <= 1 << registers.REGISTER_ADDRESS_BITS


def test_activities_have_a_counter_each():
    names = registers.activity_names()
    assert len(set(names.values())) == len(names) == 5 + SEMAPHORES
    assert all(0 < number < COUNTERS_PER_UNIT for number in names)
    assert Activity.SEMAPHORE.value + SEMAPHORES <= COUNTERS_PER_UNIT
    assert Activity.IDLE.value not in names


@pytest.mark.parametrize("opcode", Opcode)
def test_a_field_has_one_offset_in_all_instructions_of_a_unit(opcode):
    layout, unit = isa.LAYOUTS[opcode], isa.UNIT_LAYOUTS[isa.UNITS[opcode]]
    names = [field.name for field in (*isa.HEADER_FIELDS, *isa.FORMATS[opcode])]
    assert layout.size == unit.size and [name for name, _ in layout] == names
    assert all(layout[name] == unit[name] for name in names)


@pytest.mark.parametrize("opcode", Opcode)
def test_fields_are_named_once_and_shaped_as_they_declare(opcode):
    names = [field.name for field in (*isa.HEADER_FIELDS, *isa.FORMATS[opcode])]
    assert len(set(names)) == len(names)
    for field in isa.FORMATS[opcode]:
        shape = Shape.cast(field.amaranth_shape)
        low, high = field.representable
        assert low <= field.default <= high
        assert shape.signed == (low < 0)
        span = 1 << shape.width
        assert high - low < span
        if isinstance(field.shape, int):
            assert shape.width == abs(field.shape) and high - low == span - 1


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("opcode", Opcode)
def test_defaults_are_legal(config, opcode):
    isa.check(isa.Instruction(opcode), config)
    limits = isa.limits(config)[opcode]
    assert set(limits) == {field.name for field in isa.FORMATS[opcode]}
    for field in isa.FORMATS[opcode]:
        low, high = field.representable
        limit = limits[field.name]
        assert low <= limit.low <= limit.high <= high and limit.multiple >= 1


def test_units_and_codes_are_numbered_once():
    assert set(isa.UNITS) == set(isa.FORMATS) == set(isa.LAYOUTS) == set(Opcode)
    for kind in (Opcode, isa.Unit, Error, isa.Mode, Activity):
        values = [member.value for member in kind]
        assert len(set(values)) == len(values)
    assert 0 not in [opcode.value for opcode in Opcode]
