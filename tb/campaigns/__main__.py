"""Long campaigns: ``python tb/campaigns coverage|flips|malformed|mutation ...``."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "lib"))

if __name__ == "__main__":
    from command_line import main

    sys.exit(main(sys.argv[1:]))
