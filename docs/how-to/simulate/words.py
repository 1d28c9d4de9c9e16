"""Print a NumPy file as words of a memory from a byte address on, for ``$readmemh``."""

import sys

import numpy as np

path, address = sys.argv[1:]
content = np.load(path).tobytes()
words = np.frombuffer(content.ljust(-(-len(content) // 4) * 4, b"\0"), "<u4")
print(f"@{int(address, 0) // 4:x}", *(f"{word:08x}" for word in words), sep="\n")
