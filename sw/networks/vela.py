"""Cycles that Vela, the compiler of Arm's Ethos-U, estimates for a file."""

import csv
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from celosia.sw.runtime.session import InputError

#: The accelerator: as many multipliers as the preset ``edge`` has.
ACCELERATOR = "ethos-u55-256"

#: Seconds for one file.
_SECONDS = 600


def require_vela() -> None:
    """Raise InputError if Vela is not installed."""
    if shutil.which("vela") is None:
        raise InputError("--vela: wanted the program vela on PATH (pip install ethos-u-vela)")


def cycles_of(path: Path) -> int | None:
    """Return the cycles of the accelerator; None for a file that Vela refuses."""
    with TemporaryDirectory() as folder:
        command = ["vela", str(path), "--accelerator-config", ACCELERATOR, "--output-dir", folder]
        try:
            result = subprocess.run(command, capture_output=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        summaries = [*Path(folder).glob("*_summary_*.csv")]
        if result.returncode or not summaries:
            return None
        with summaries[0].open(newline="") as file:
            (row,) = csv.DictReader(file)
    return round(float(row["cycles_npu"]))
