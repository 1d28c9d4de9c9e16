"""Clocks of the core and of the bus in a LiteX system."""

import re
from dataclasses import replace

import prerequisites
import pytest

from celosia.hw.arch.presets import preset
from celosia.hw.environment.extras import ToolError
from celosia.hw.flow.flow import placed
from celosia.hw.flow.netlist import aliases

boards = prerequisites.package("celosia.hw.litex.boards")
build = prerequisites.package("celosia.hw.litex.build")

pytestmark = pytest.mark.thorough

CONFIG = preset("pico")


def _board():
    return replace(
        boards.BOARDS["ulx3s-12f"], config=CONFIG, clock_hz=62_500_000, bus_clock_hz=50_000_000
    )


def test_a_core_with_a_clock_of_its_own():
    system, description = build.design(_board())
    assert description["clocks"] == {"core": 62_500_000, "bus": 50_000_000}
    assert (system.megahertz, system.own_clock, system.other_megahertz) == (62.5, "core_clk", 50)
    # The flow finds the net by this name, which Yosys would replace by one inside the core.
    assert re.search(r'\(\* keep = "true" \*\)\s+wire\s+core_clk;', system.verilog)
    # Outputs of one oscillator.
    divisions = {
        name: int(n) for name, n in re.findall(r"\.(CLKO\w+)_DIV\s+\(\d+'d(\d+)\)", system.verilog)
    }
    assert divisions["CLKOP"] * 50 == divisions["CLKOS3"] * 62.5
    (celosia,) = re.findall(r"(?s)\ncelosia celosia\((.*?)\);", system.verilog)
    assert re.search(r"\.clk\s+\(core_clk\)", celosia) and re.search(
        r"\.rst\s+\(core_rst\)", celosia
    )
    with pytest.raises(ValueError, match="wanted a target with crg.pll, got none|62.5 and 48 MHz"):
        build.design(
            replace(
                boards.BOARDS["tang-nano-20k"],
                config=CONFIG,
                clock_hz=62_500_000,
                bus_clock_hz=48_000_000,
            )
        )


@pytest.mark.slow
def test_the_clock_of_the_core_keeps_its_name(tmp_path):
    """Of the names of its net in all modules, Yosys leaves some."""
    system, _ = build.design(_board())
    with prerequisites.needed(ToolError):
        placed(system, tmp_path, seeds=[])
    (netlist,) = tmp_path.glob("*.json")
    assert "core_clk" in aliases(netlist, system.name, system.own_clock)


def test_a_clock_that_the_loop_cannot_make():
    board = replace(boards.BOARDS["ulx3s-12f"], config=CONFIG, clock_hz=900_000_000, bus_clock_hz=0)
    with pytest.raises(ValueError, match="ulx3s-12f: No PLL config found, 900 MHz"):
        build.design(board)
