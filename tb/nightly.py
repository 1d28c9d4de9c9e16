"""Long targets of the Makefile, one after the other, and a table of their ends."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

#: File of the table.
TABLE = Path("build") / "nightly.md"


def make(target: str) -> int:
    """Return the exit code of a target."""
    return subprocess.run(["make", target]).returncode


def row(day: date, target: str, seconds: float, code: int) -> str:
    """Return the line of a target in the table."""
    duration = timedelta(seconds=round(seconds))
    end = "passed" if code == 0 else f"failed: exit code {code}"
    return f"| {day} | `make {target}` | {duration} | {end} |"


def run(targets: Sequence[str], start: Callable[[str], int] = make, table: Path = TABLE) -> int:
    """Run all targets, also after one that fails; print and write the table.

    Returns 0 if all have passed, else 1.
    """
    lines = ["| date | target | duration | result |", "|---|---|---|---|"]
    failed = False
    for target in targets:
        day, begin = date.today(), time.monotonic()
        code = start(target)
        failed |= code != 0
        lines.append(row(day, target, time.monotonic() - begin, code))
        # What has ended stands in the file if the machine stops.
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
