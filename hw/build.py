"""Verilog of a core, and its synthesis with open tools."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from amaranth.back import verilog as backend

from celosia.hw.arch.config import Config
from celosia.hw.core import Core

TOP = "celosia"


def verilog(config: Config) -> str:
    """Return the Verilog of a core; its top module is ``celosia``."""
    return backend.convert(Core(config=config), name=TOP, emit_src=False)


def sources_digest() -> str:
    """Return a digest of everything that decides the Verilog, sizes apart.

    Saves elaborating a core just to learn that it was built before.
    """
    digest = hashlib.sha256(version("amaranth").encode())
    room = Path(__file__).parent
    for path in sorted(room.rglob("*.py")):
        digest.update(str(path.relative_to(room)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
