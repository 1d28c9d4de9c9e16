"""The bench that docs/how-to/write-a-bench.md prints."""

import sys

import documents
import pytest
from cosim.cores import CORES

from celosia.hw.arch.presets import preset


@pytest.mark.parametrize("simulator", ["icarus"], indirect=True)
def test_printed_bench(cosim, root, tmp_path, monkeypatch):
    page = (root / "docs" / "how-to" / "write-a-bench.md").read_text()
    (text,) = (block.text for block in documents.blocks(page) if block.language == "python")
    (tmp_path / "bench_printed.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    cosim("bench_printed", preset(CORES["square"]), rounds=4)
    sys.modules.pop("bench_printed")
