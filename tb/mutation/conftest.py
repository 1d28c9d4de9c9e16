import sys
from pathlib import Path

# Tests of this folder use its modules; importlib mode does not put the folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
