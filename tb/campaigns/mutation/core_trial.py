"""Random programs on small cores, for changes that no test of a block notices."""

import os
import random
from pathlib import Path

import pytest

from celosia.hw.verilog.build import verilog
from celosia.sim.rtl.core import fast
from celosia.sw.fuzz.programs.configurations import CONFIGURATIONS
from celosia.sw.fuzz.programs.faulty import faulty
from celosia.sw.fuzz.programs.legal import legal
from celosia.sw.fuzz.trial import attempt

#: Programs of each kind.
LEGAL, FAULTY = 100, 60

#: Cycles after which a program is taken to hang; some of these take more than 100,000.
PATIENCE = 500_000


@pytest.mark.parametrize("name", ["least", "odd"])
def test_programs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs as ``celosia fuzz`` does, on the gateware elaborated in this process."""
    config = CONFIGURATIONS[name]
    monkeypatch.setitem(os.environ, "CELOSIA_CACHE", str(tmp_path))
    text = tmp_path / "core.v"
    text.write_text(verilog(fast(config)))
    rng = random.Random(f"mutation {name}")
    cases = [legal(config, rng) for _ in range(LEGAL)]
    cases += [faulty(config, rng)[1] for _ in range(FAULTY)]
    for case in cases:
        assert not attempt(case, patience=PATIENCE, netlist=text).problems
