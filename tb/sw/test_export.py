"""Files of ``celosia verilog`` around the Verilog, and programs as data in C."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import documents
import prerequisites
import pytest

from celosia.hw.arch.presets import PRESETS, preset
from celosia.hw.arch.registers import COUNTERS, FLAGS, REGISTERS
from celosia.sim.rtl import converted
from celosia.sim.rtl.simulators import find_icarus
from celosia.sw.cli import main
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.export.files import BENCH, DRIVER, verilog_files
from celosia.sw.export.program import c_program, hex_program
from celosia.sw.export.registers import c_constants, system_rdl
from celosia.sw.frontend.tflite import load
from celosia.sw.ir.program import ProgramError
from celosia.sw.shipped import model_path

NANO = PRESETS["nano"]
COMPILER = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-ffreestanding"]


def test_files_are_written_beside_the_verilog(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(converted, "core_verilog", lambda config, **_: f"module {config.name};\n")
    monkeypatch.chdir(tmp_path)
    assert main("verilog --preset nano -o core.v".split()) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core.v", "core.vlt"]
    first = f"core.v: nano, fingerprint {NANO.fingerprint:#010x}"
    assert capsys.readouterr().out.splitlines() == [first, "core.vlt"]
    assert main("verilog --preset nano -o core.v --all".split()) == 0
    printed, *names = capsys.readouterr().out.splitlines()
    assert printed == first and len(names) == 7
    made = {path.name for path in tmp_path.iterdir()}
    others = {"core.v", "core.vlt", "core.core", "core.rdl", "celosia_registers.h"}
    assert made == {*others, *DRIVER, BENCH}
    assert made == {"core.v", *names}
    assert '-file "*core.v"' in Path("core.vlt").read_text()
    Path("core.rdl").unlink()
    Path("core.rdl").mkdir()
    assert main("verilog --preset nano -o core.v --all".split()) == 2
    assert "core.rdl: wanted a file, got a directory" in capsys.readouterr().err


def test_every_waiver_has_a_reason() -> None:
    _, *lines = verilog_files(NANO, "x.v", everything=False)["x.vlt"].splitlines()
    for reason, waiver in zip(lines[::2], lines[1::2], strict=True):
        assert reason.startswith("// ") and reason.endswith(".")
        assert waiver.startswith("lint_off -rule ") and '-file "*x.v"' in waiver


@pytest.mark.parametrize("sizes", ["nano", "edge,weight_rows=4"])
def test_the_core_file_names_what_is_written(sizes: str) -> None:
    """It is YAML of the fields that FuseSoC knows; names are allowed ones."""
    yaml = prerequisites.package("yaml")
    files = verilog_files(preset(sizes), "celosia.v", everything=True)
    core = yaml.safe_load(files["celosia.core"])
    assert list(core) == ["CAPI=2", "name", "description", "filesets", "parameters", "targets"]
    assert re.fullmatch(r"celosia:celosia:\w+:\d+\.\d+\.\d+", core["name"])
    named = {name for each in core["filesets"].values() for file in each["files"] for name in file}
    assert named == {*files, "celosia.v"} - {"celosia.core"}
    for target in core["targets"].values():
        assert set(target["filesets"]) <= set(core["filesets"])
        assert target["flow"] and f"module {target['toplevel']}" in f"module celosia {files[BENCH]}"
        named = {parameter.partition("=")[0] for parameter in target.get("parameters", ())}
        assert named in (set(), set(core["parameters"]))
    assert set(core["targets"]) == {"default", "lint", "sim", "synth"}
    assert core["targets"]["lint"]["flow_options"]["verilator_options"] == ["-Wall"]
    for name, parameter in core["parameters"].items():
        kind = parameter["paramtype"]
        assert (f'"{name}=%' if kind == "plusarg" else f"parameter {name} ") in files[BENCH]
    assert f"BYTES={preset(sizes).bus_bytes}" in core["targets"]["sim"]["parameters"]


def compiled_rdl(tmp_path: Path) -> object:
    compiler = prerequisites.package("systemrdl").RDLCompiler()
    path = tmp_path / "celosia.rdl"
    path.write_text(system_rdl())
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def test_system_rdl_has_every_register(tmp_path: Path) -> None:
    top: object = compiled_rdl(tmp_path)
    nodes = {node.inst_name: node for node in top.children()}  # pyright: ignore
    assert list(nodes) == [*(register.name for register in REGISTERS), "counters"]
    for register in REGISTERS:
        node = nodes[register.name]
        fields = {field.inst_name: field for field in node.fields()}
        assert node.absolute_address == register.offset
        assert node.has_sw_writable == (register.access != "r") and node.has_sw_readable
        wanted = {flag.name: flag.value for flag in FLAGS.get(register.name, ())}
        got = {name: 1 << field.low for name, field in fields.items()}
        ends = {"value": 1 << register.lowest}
        if register.init & (1 << register.lowest) - 1:
            ends["constant"] = 1
        assert got == (wanted or ends)
        reset = sum((f.get_property("reset") or 0) << f.low for f in fields.values())
        assert reset == (0 if wanted else register.init)
        # Gateware writes none that hosts write, but for flags, and no constants.
        if not wanted:
            changes = register.access == "r" and not register.init
            assert node.has_hw_writable == changes or "constant" in fields
            assert fields["value"].is_hw_writable == changes
            assert "constant" not in fields or not fields["constant"].is_hw_writable
    assert nodes["counters"].raw_absolute_address == COUNTERS


def test_the_header_of_peakrdl_agrees(tmp_path: Path) -> None:
    """Offsets and bits are those of the header that the driver uses."""
    exporter = prerequisites.package("peakrdl_cheader.exporter").CHeaderExporter()
    exporter.export(compiled_rdl(tmp_path), path=str(tmp_path / "peak.h"))
    (tmp_path / "celosia_registers.h").write_text(c_constants())
    checks = [
        f'_Static_assert(offsetof(celosia_t, {r.name}) == CELOSIA_{r.name.upper()}_OFFSET, "");'
        for r in REGISTERS
    ]
    checks.append('_Static_assert(offsetof(celosia_t, counters) == CELOSIA_COUNTERS_OFFSET, "");')
    for name, flags in FLAGS.items():
        for flag in flags:
            peak = f"CELOSIA__{name.upper()}__{flag.name}_bm"
            own = f"CELOSIA_{flags.__name__.upper()}_{flag.name}"
            checks.append(f'_Static_assert({peak} == {own}, "");')
    heads = ["stddef.h", "peak.h", "celosia_registers.h"]
    text = "".join(f'#include "{head}"\n' for head in heads) + "\n".join(checks) + "\n"
    (tmp_path / "check.c").write_text(text)
    subprocess.run(["gcc", "-std=c11", "-fsyntax-only", "check.c"], cwd=tmp_path, check=True)


def test_the_driver_compiles_without_warnings(tmp_path: Path, mnist_model: Path) -> None:
    """As C99 without a C library, and as C++."""
    program = compile_graph(load(mnist_model), NANO, 2)
    files = verilog_files(NANO, "celosia.v", everything=True)
    page = (Path(__file__).parents[2] / "docs/how-to/use-the-core.md").read_text()
    (example,) = (block.text for block in documents.blocks(page) if block.language == "c")
    files |= {"example.c": example, "digits.c": c_program(program, "7 digits.v2")}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert "const celosia_program _7_digits_v2 = {" in (tmp_path / "digits.c").read_text()
    for name in ("celosia.c", "example.c", "digits.c"):
        for more in ([], ["-x", "c++", "-std=c++11"]):
            command = [*(COMPILER if not more else ["g++", *more, *COMPILER[2:]])]
            subprocess.run([*command, "-c", name, "-o", "x.o"], cwd=tmp_path, check=True)
    listing = ["nm", "-u", "x.o"]
    undefined = subprocess.run(listing, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert not undefined.stdout


def test_a_name_does_not_end_its_comment(mnist_model: Path) -> None:
    program = compile_graph(load(mnist_model), NANO)
    program = replace(program, name="a*/b\nc")
    assert c_program(program, "net").splitlines()[0] == "/* a_b_c for nano, batch 1. */"
    assert hex_program(program).startswith("// a_b_c for nano, batch 1: ")


def test_a_program_that_needs_the_host_is_refused(mnist_model: Path) -> None:
    program = compile_graph(load(mnist_model), NANO, 1)
    (source,) = program.inputs
    moved = replace(program, inputs=(replace(source, address=-1),))
    with pytest.raises(ProgramError, match="C wants a program of the core alone"):
        c_program(moved, "x")
    with pytest.raises(ProgramError, match="readmemh wants a program of the core alone"):
        hex_program(moved)


def test_compile_writes_c(tmp_path, mnist_model, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(mnist_model), "--preset", "nano", "-o", "digits.c"]) == 0
    program = compile_graph(load(mnist_model), NANO, 1)
    assert Path("digits.c").read_text() == c_program(program, "digits")
    size = f"{program.memory_bytes:,} bytes of memory"
    assert capsys.readouterr().out == f"digits.c: nano, batch 1, {size}\n"


@pytest.mark.parametrize("name", ["celosia", "celosia_program", "int", "_Bool", "each", "data_12"])
def test_a_variable_that_c_cannot_have_is_refused(name: str, tmp_path, mnist_model, capsys) -> None:
    assert main(["compile", str(mnist_model), "-o", str(tmp_path / f"{name}.c")]) == 2
    wanted = f"celosia: {name}.c: wanted the name of a variable, got {name!r} of C or driver\n"
    assert capsys.readouterr().err == wanted
    assert not list(tmp_path.iterdir())


def test_compile_writes_the_memory_of_a_bench(tmp_path, monkeypatch, icarus) -> None:
    """The Verilog of the page reads it; every byte is at its address, the rest is zero."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how-to/use-the-core.md").read_text()
    (example,) = (block.text for block in documents.blocks(page) if block.language == "verilog")
    assert main("compile mnist_mlp --preset nano -o digits.hex".split()) == 0
    dump = 'initial #1 $writememh("read.hex", memory);'
    Path("bench.v").write_text(f"module bench;\n{example}{dump}\nendmodule\n")
    subprocess.run([find_icarus(), "-g2012", "-obench", "bench.v"], check=True)
    done = subprocess.run(["vvp", "-n", "bench"], check=True, capture_output=True, text=True)
    assert "WARNING" not in done.stdout + done.stderr
    lines = Path("read.hex").read_text().split("\n")
    words = [line for line in lines if line[:2] not in ("//", "")]
    read = b"".join(int(word, 16).to_bytes(4, "little") for word in words)

    program = compile_graph(load(model_path("mnist_mlp")), NANO, 1)
    wanted = bytearray(program.memory_bytes)
    for address, content in (
        *((segment.address, segment.data) for segment in program.segments),
        *((section.address, section.code) for _, section in program.sections),
    ):
        wanted[address : address + len(content)] = content
    assert read == wanted
    head = [line for line in Path("digits.hex").read_text().splitlines() if line[:2] == "//"]
    runs = [("once", s) for s in program.once] + [("each", s) for s in program.per_batch]
    assert head == [
        f"// {program.name} for nano, batch 1: {len(words)} words",
        f"// fingerprint {NANO.fingerprint:#010x}",
        *(f"// {n}: program_address {s.address:#x}, program_length {s.words}" for n, s in runs),
        f"// inputs: address {program.inputs[0].address:#x}, bytes 784",
        f"// outputs: address {program.outputs[0].address:#x}, bytes 10",
    ]
    assert "\n".join(["$ head -6 digits.hex", *head, "```"]) in page
