"""``celosia synth``, around a synthesis that reports known figures."""

import json
from collections import Counter
from pathlib import Path

import pytest

from celosia.hw import synthesis
from celosia.hw.flow.depth import DeepPath, Depth
from celosia.hw.flow.flow import Design, Run
from celosia.hw.flow.parts import part_named
from celosia.hw.flow.paths import End, Late, Start
from celosia.hw.flow.report import Report
from celosia.sw.cli import main


def test_synth(capsys, monkeypatch, tmp_path):
    requested = {}

    def fake(config, *, part, seeds, directory, clock, report):
        seeds = list(seeds)
        requested.update(
            config=config.name, seeds=seeds, directory=directory, part=part.name, clock=clock
        )
        report("synthesising")
        speeds = [101.25, 99.0, 104.5, 100.0, 98.0]
        used = {"TRELLIS_FF": (1234, 83640), "DP16KD": (52, 208)}
        none = Path("none")
        pairs = zip(seeds, speeds, strict=False)
        runs = [Run(seed, fmax, used, none, none, none) for seed, fmax in pairs]
        blocks = {"matrix": {"LUT": 1200, "FF": 7, "DSP": 16, "block RAM": 0}}
        design = Design(name="celosia", verilog="", part=part, megahertz=1)
        signal = End("core.a", "a.py:1", "core")
        late = Late(9, 2, [Start(signal, 12.5, 2)])
        deep = Depth({"core": Counter({9: 2, 8: 1, 3: 6})}, [DeepPath(9, 2, signal, signal)])
        beyond = [(208.96, late)]
        return Report(design=design, runs=runs, blocks=blocks, depth=deep, late=late, beyond=beyond)

    monkeypatch.setattr(synthesis, "synthesise", fake)
    assert main(["synth"]) == 0
    printed = capsys.readouterr()
    wanted = {"config": "edge", "seeds": [1, 2, 3, 4, 5], "directory": Path("build/synth")}
    assert requested == {**wanted, "part": "LFE5U-85F", "clock": None}
    assert printed.err == "  0:00  synthesising\n"
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0] == "edge on LFE5U-85F, speed grade 6".split()
    assert lines[1:4] == [
        ["cells", "used", "available", "percent"],
        ["DP16KD", "52", "208", "25.0%"],
        ["TRELLIS_FF", "1,234", "83,640", "1.5%"],
    ]
    assert "Fmax 98.0 / 100.0 / 104.5 MHz (minimum / median / maximum of 5 seeds)".split() in lines
    assert ["matrix", "1,200", "7", "16", "0"] in lines
    text = "too late for the requested clock: 2 of 9 inputs of registers"
    assert text in printed.out and "12.50 ns 2 core.a (a.py:1), core".split() in lines
    assert "core 9 3 2 9".split() in lines and "total 9 3 2 9".split() in lines
    assert "9 2 core.a (a.py:1) -> core.a (a.py:1), core".split() in lines
    assert lines[-1] == "209.0 MHz 2 1".split()
    options = "--preset nano --seeds 2 --directory d --part iCE40UP5K --clock 99.5"
    assert main(["synth", *options.split()]) == 0
    wanted = {"config": "nano", "seeds": [1, 2], "directory": Path("d")}
    assert requested == {**wanted, "part": "iCE40UP5K", "clock": 99.5}
    assert "99.0 / 100.1 / 101.2 MHz" in capsys.readouterr().out
    figures = tmp_path / "figures.json"
    assert main(["synth", "--seeds", "0", "--json", str(figures)]) == 0
    assert "Fmax" not in capsys.readouterr().out
    record = json.loads(figures.read_text())
    depth = {"inputs": 9, "over_7": 3, "over_8": 2, "greatest": 9}
    assert record["preset"] == "edge" and record["depth"]["blocks"] == {"core": depth}
    assert record["depth"].items() >= depth.items()
    assert record["depth"]["paths"][0]["start"]["source"] == "a.py:1"
    for name, part in (("LFE5U-25F", "LFE5U-25F-CABGA381"), ("LFE5U-85F", "LFE5U-85F")):
        assert main(f"synth --part {name}".split()) == 0
        assert requested["part"] == part
    for name in ("LFE5U", "LFE5U-2", "", "LFE5UM-12F-6BG381C", "LFE5U-45F-6BG999", "10", "xc"):
        assert part_named(name) is None


@pytest.mark.parametrize(
    ("code", "options", "suffix"),
    [
        ("LFE5U-12F-6BG256C", "--12k --package CABGA256 --speed 6", ".lpf"),
        ("LFE5U-45F-8CABGA381", "--45k --package CABGA381 --speed 8", ".lpf"),
        ("LFE5U-25F-8MG285C", "--25k --package CSFBGA285 --speed 8", ".lpf"),
        ("LFE5UM5G-45F-8BG381C", "--um5g-45k --package CABGA381 --speed 8", ".lpf"),
        ("LFE5UM-85F-8BG756I", "--um-85k --package CABGA756 --speed 8", ".lpf"),
        ("LFE5U-25F-6TG144C", "--25k --package TQFP144 --speed 6", ".lpf"),
        ("xc6slx9-tqg144-2", "", ".ucf"),
        ("xc7a50tfgg484-1", "", ".xdc"),
        ("10M50DAF484C7G", "", ".qsf"),
    ],
)
def test_parts_by_their_ordering_code(code, options, suffix):
    part = part_named(code)
    assert part and (" ".join(part.options), part.family.suffixes[0]) == (options, suffix)
    assert part.is_open is bool(options)
