"""The driver in C as a library: its registers and its caches are functions in Python."""

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.sw.export.files import verilog_files

OK, RUNNING, FAILED, TIMEOUT, NOT_FOUND, MISMATCH, TOO_LARGE = range(7)
#: Address of the registers.
BASE = 0x4000_0000
FLAGS = "-std=c99 -Wall -Wextra -Wpedantic -Werror -ffreestanding -O1 -fPIC -shared".split()

#: Turns accesses to registers, and what writes caches back, into calls.
_HEADER = """
#include <stdint.h>
extern uint32_t port_get(uintptr_t address);
extern void port_put(uintptr_t address, uint32_t value);
extern void port_sync(int to_core, void *memory, uint32_t bytes);
#define CELOSIA_READ(address) port_get(address)
#define CELOSIA_WRITE(address, value) port_put(address, value)
#define CELOSIA_TO_CORE(memory, bytes) port_sync(1, memory, bytes)
#define CELOSIA_FROM_CORE(memory, bytes) port_sync(0, memory, bytes)
"""
_SOURCE = """
uint32_t (*port_read)(uintptr_t);
void (*port_write)(uintptr_t, uint32_t);
void (*port_cache)(int, void *, uint32_t);
uint32_t port_get(uintptr_t address) { return port_read(address); }
void port_put(uintptr_t address, uint32_t value) { port_write(address, value); }
void port_sync(int to_core, void *memory, uint32_t bytes) { port_cache(to_core, memory, bytes); }
"""


class Core(ctypes.Structure):
    """``celosia``."""

    _fields_ = (
        ("registers", ctypes.c_size_t),
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("memory_bytes", "polls", "cycles")),
        *((f"error_{name}", ctypes.c_uint32) for name in ("code", "unit", "index")),
    )


class Section(ctypes.Structure):
    """``celosia_section``."""

    _fields_ = (("address", ctypes.c_uint32), ("length", ctypes.c_uint32))


class Program(ctypes.Structure):
    """``celosia_program``."""

    _counts = ("segment", "once", "each", "input", "output")
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("fingerprint", "memory_bytes")),
        *((f"{name}_count", ctypes.c_uint32) for name in _counts),
        ("segments", ctypes.c_void_p),
        ("once", ctypes.POINTER(Section)),
        ("each", ctypes.POINTER(Section)),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
    )


def compiled(folder: Path, config: Config, programs: Mapping[str, str]) -> Any:
    """Return the library of the driver and of programs in C, by the names of their variables."""
    sources = {
        **verilog_files(config, "celosia.v", everything=True),
        **{f"{name}.c": text for name, text in programs.items()},
        "port.h": _HEADER,
        "port.c": '#include "port.h"\n' + _SOURCE,
    }
    for name, text in sources.items():
        (folder / name).write_text(text)
    files = ["celosia.c", "port.c", *(f"{name}.c" for name in programs)]
    command = ["gcc", *FLAGS, "-include", "port.h", *files, "-o", "driver.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "driver.so"))


class Host:
    """A processor that runs the driver.

    ``read``, ``write``: of registers, by their offsets; ``cache``: takes True before a start and
    False after an end, address and size.
    """

    def __init__(
        self,
        driver: Any,
        read: Callable[[int], int],
        write: Callable[[int, int], None],
        cache: Callable[[bool, int, int], None] = lambda to_core, memory, size: None,
    ) -> None:
        self.driver, self.core = driver, Core()
        value, address = ctypes.c_uint32, ctypes.c_size_t
        # Kept, as C has no reference to them.
        self._functions = {
            "port_read": ctypes.CFUNCTYPE(value, address)(lambda where: read(where - BASE)),
            "port_write": ctypes.CFUNCTYPE(None, address, value)(
                lambda where, number: write(where - BASE, number)
            ),
            "port_cache": ctypes.CFUNCTYPE(None, ctypes.c_int, address, value)(
                lambda to_core, memory, size: cache(bool(to_core), memory, size)
            ),
        }
        for name, function in self._functions.items():
            pointer = ctypes.c_void_p.in_dll(driver, name)
            pointer.value = ctypes.cast(function, ctypes.c_void_p).value

    def call(self, name: str, *arguments: Any) -> int:
        """Return the result of a function of the driver on the core."""
        return getattr(self.driver, f"celosia_{name}")(ctypes.byref(self.core), *arguments)

    def init(self, memory: int, memory_bytes: int) -> int:
        """Find the core, with a memory at an address."""
        return self.call("init", ctypes.c_size_t(BASE), ctypes.c_void_p(memory), memory_bytes)

    def run(self, program: Program, inputs: list[Any], outputs: list[Any]) -> int:
        """Run a program for a batch, from arrays and into arrays."""
        pointers = [
            (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            for arrays in (inputs, outputs)
        ]
        return self.call("run", ctypes.byref(program), *pointers)
