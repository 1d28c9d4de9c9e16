"""Draw the pictures of the tutorials, or check that they are up to date.

``make pictures`` runs it. With a folder as argument, the files go there.
"""

import sys
from pathlib import Path

import array_pictures
import program_pictures
import way_pictures
from canvas import Canvas

HERE = Path(__file__).resolve().parent / "pictures"


def pictures() -> dict[str, Canvas]:
    """Return all pictures by file name, without its ending."""
    modules = (array_pictures, program_pictures, way_pictures)
    return {name: canvas for each in modules for name, canvas in each.pictures().items()}


def main() -> None:
    """Write all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    folder.mkdir(parents=True, exist_ok=True)
    for name, canvas in pictures().items():
        canvas.save(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
