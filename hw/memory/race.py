"""What a memory gives when a word is read while it is written."""

from typing import Any

#: Attributes of a memory whose readers never use a word that is written in the same cycle: either
#: semaphores keep such programs from being written, or the reader forwards what was written last.
#: Spares the comparators and registers with which Yosys would make block RAM give the old word.
UNDEFINED: Any = {"no_rw_check": 1}
