import sys
from pathlib import Path

from cosim.fixtures import cosim, simulator

# Benches are modules for the simulator, too.
sys.path.insert(0, str(Path(__file__).parent))

__all__ = ["cosim", "simulator"]
