"""``python -m celosia.sw``: the command line."""

import sys

from celosia.sw.cli import main

if __name__ == "__main__":
    sys.exit(main())
