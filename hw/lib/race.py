"""Read of a word in the cycle of its write: undefined in all memories of the core."""

from typing import Any

#: Attributes of a memory whose readers never use a word that is written in the same cycle: programs
#: order such accesses by semaphores, or the reader forwards the word written last. Without it,
#: Yosys adds comparators and registers so that block RAM gives the old word.
UNDEFINED: Any = {"no_rw_check": 1}
