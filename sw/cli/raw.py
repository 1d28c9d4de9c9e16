"""``celosia run`` of bare instructions: words of 32 bits, with files in external memory."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from celosia.hw.arch import commands, isa
from celosia.hw.arch.config import ADDRESS_BITS, PROGRAM_BYTES, Config
from celosia.hw.arch.presets import PRESETS
from celosia.hw.arch.registers import MOST_INSTRUCTIONS
from celosia.sw.cli.arguments import device_options, wave_files
from celosia.sw.cli.inputs import npy, read_array
from celosia.sw.driver.core import RunResult
from celosia.sw.driver.device import DeviceError
from celosia.sw.files import json_bytes, read_file, writable, write_atomically
from celosia.sw.ir.program import MAGIC
from celosia.sw.runtime import backends
from celosia.sw.runtime.session import InputError

_NUMBER = r"(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})"
_MEMORY = re.compile(rf"({_NUMBER})=(.+)", re.DOTALL)
_DUMP = re.compile(rf"({_NUMBER}):({_NUMBER})=(.+)", re.DOTALL)


class _Range(NamedTuple):
    """Bytes of external memory, and the file that they come from or go to."""

    address: int
    length: int
    path: Path


def is_raw(path: Path) -> bool:
    """Return whether a file holds bare instructions, by its first words."""
    try:
        with path.open("rb") as file:
            first = file.read(PROGRAM_BYTES)
    except OSError:
        return False
    length = len(first) // commands.WORD_BYTES * commands.WORD_BYTES
    if not length or first.startswith(MAGIC) or first[4:8] == b"TFL3":
        return False
    try:
        commands.decode(first[:length])
    except ValueError:
        return False
    return True


def decode(path: Path, content: bytes) -> list[isa.Instruction]:
    """Return the instructions of a file of words.

    Raises InputError if one of them is illegal, or the last is truncated.
    """
    try:
        return commands.decode(content)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def run(path: Path, arguments: argparse.Namespace) -> None:
    """Run bare instructions; they lie in external memory past all bytes that they touch.

    Raises InputError if arguments conflict, or files cannot be read or written; DeviceError if the
    core stops with an error.
    """
    config = arguments.preset or PRESETS["edge"]
    _require_no_model_options(path, arguments)
    dumps = [_dump(text) for text in arguments.dump]
    sources = [_memory(text) for text in arguments.memory]
    writable(
        *(dump.path for dump in dumps),
        arguments.stats,
        *wave_files(arguments),
        sources=(path, *(source.path for source, _ in sources)),
    )
    content = read_file(path)
    instructions = decode(path, content)
    if not 1 <= len(instructions) <= MOST_INSTRUCTIONS:
        requirement = f"1 to {MOST_INSTRUCTIONS} instructions"
        raise InputError(f"{path}: wanted {requirement}, got {len(instructions)}")
    _require_apart([source for source, _ in sources])
    ends = [one.address + one.length for one in (*dumps, *(source for source, _ in sources))]
    count = len(content) // commands.WORD_BYTES
    origin = -(-max([_reach(instructions, config), *ends]) // PROGRAM_BYTES) * PROGRAM_BYTES
    memory_bytes = origin + commands.padded(count)
    if memory_bytes > 1 << ADDRESS_BITS:
        raise InputError(f"{path}: wanted 4 GiB of external memory at most, got {memory_bytes}")
    device = backends.open_device(
        arguments.device, config, memory_bytes, **device_options(arguments)
    )
    try:
        for source, data in sources:
            device.write(source.address, data)
        device.write(origin, content)
        result = device.run(origin, count)
        _require_success(path, content, config, result)
        blocks = [device.read(dump.address, dump.length) for dump in dumps]
    finally:
        device.close()
    contents: dict[str | Path, bytes] = {
        dump.path: npy(np.frombuffer(data, np.int8)) if dump.path.suffix == ".npy" else data
        for dump, data in zip(dumps, blocks, strict=True)
    }
    if arguments.stats:
        report = _statistics(path, config, len(instructions), result)
        contents[arguments.stats] = json_bytes(report)
    write_atomically(contents)
    print(_summary(len(instructions), result, config))


def _summary(count: int, result: RunResult, config: Config) -> str:
    cycles = "" if result.cycles is None else f" in {result.cycles:,} cycles"
    core = f"{config.name}, {config.rows} × {config.columns}"
    return f"{count} instruction{'s' * (count > 1)}{cycles} on {core}"


def _require_no_model_options(path: Path, arguments: argparse.Namespace) -> None:
    options = {**vars(arguments), "workers": arguments.workers > 1, "cores": arguments.cores > 1}
    models = ("input", "output", "batch", "pixels", "flat", "resize")
    for name in (*models, "cores", "workers", "scheduler", "resume"):
        if options[name]:
            raise InputError(
                f"{path}: bare instructions have no --{name} "
                "(--memory ADDRESS=FILE, --dump ADDRESS:BYTES=FILE)"
            )


def _memory(text: str) -> tuple[_Range, bytes]:
    match = _MEMORY.fullmatch(text)
    if not match:
        raise InputError(f"--memory {text}: wanted ADDRESS=FILE, for instance 0x100=x.npy")
    address, path = int(match[1], 0 if "x" in match[1].lower() else 10), Path(match[2])
    if path.suffix == ".npy":
        array = read_array(path)
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    else:
        data = read_file(path)
    return _within("--memory", text, _Range(address, len(data), path)), data


def _dump(text: str) -> _Range:
    match = _DUMP.fullmatch(text)
    if not match:
        raise InputError(f"--dump {text}: wanted ADDRESS:BYTES=FILE, for instance 0x100:64=y.npy")
    address, count = (int(one, 0 if "x" in one.lower() else 10) for one in (match[1], match[2]))
    return _within("--dump", text, _Range(address, count, Path(match[3])))


def _within(option: str, text: str, one: _Range) -> _Range:
    if one.length < 1 or one.address + one.length > 1 << ADDRESS_BITS:
        raise InputError(f"{option} {text}: wanted 1 or more bytes below 4 GiB, got {one.length}")
    return one


def _require_apart(ranges: Sequence[_Range]) -> None:
    ordered = sorted(ranges)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if one.address + one.length > other.address:
            raise InputError(f"--memory: {one.path} and {other.path} overlap at {other.address:#x}")


def _reach(instructions: Sequence[isa.Instruction], config: Config) -> int:
    """Return the bytes of external memory that instructions touch; illegal ones count as none."""
    from celosia.sim.check.footprint import Memory, OutOfRange, reach

    end = 0
    for instruction in instructions:
        try:
            end = max(end, reach([instruction], Memory.EXTERNAL, config))
        except OutOfRange:
            continue
    return end


def _require_success(path: Path, content: bytes, config: Config, result: RunResult) -> None:
    if result.error is not None:
        reason = _reason(content, config, result.error)
        raise DeviceError(f"{path}: {reason} (preset {config.name})")


def _reason(content: bytes, config: Config, error: tuple[isa.Error, isa.Unit, int]) -> str:
    """Return the reason of an error of the core: in the words of the checker if it finds it too."""
    from celosia.sim.check.hazards import Fault, Hazard, MachineError, check_hazards

    code, unit, index = error
    instructions = commands.decode(content)
    where = f"instruction {index}"
    if 0 <= index < len(instructions):
        where += f" ({isa.disassemble(instructions[index])})"
    reason = f"{code.name} in {unit.name}: {where}"
    try:
        check_hazards(content, config)
    except MachineError as found:
        same = (found.error, found.unit, found.index) == error
        return str(found) if same else reason
    except Hazard as hazard:
        if code is isa.Error.WATCHDOG and hazard.fault is Fault.DEADLOCK:
            return f"{reason}; {hazard}"
    return reason


def _statistics(path: Path, config: Config, count: int, result: RunResult) -> dict[str, Any]:
    return {
        "program": path.name,
        "preset": config.name,
        "instructions": count,
        "cycles": result.cycles,
        "counters": result.counters,
    }
