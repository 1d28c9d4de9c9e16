"""Sources of programs, models and programs by path, name or contents, and sessions on devices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from celosia.hw.arch.config import Config
from celosia.hw.arch.presets import preset
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.source import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import MAGIC, Program, ProgramError
from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.backends import open_cores
from celosia.sw.runtime.session import Session
from celosia.sw.shipped import model_path

#: Path of a model, name of a shipped model, or the contents of a file.
File = str | Path | bytes
#: A file, which may be that of a program, or a program.
Source = File | Program
#: Shapes of inputs by name.
Shapes = Mapping[str, tuple[int, ...]]


def graph_of(
    model: File | Graph, signature: str | None = None, shapes: Shapes | None = None
) -> Graph:
    """Return the graph of a model.

    Parameters
    ----------
    model : str, pathlib.Path, bytes or Graph
        A ``.tflite`` or ``.onnx`` file: its path or its contents; the name of a shipped model; or
        a graph, which is returned.
    signature, shapes : optional
        As in ``read_source``.

    Returns
    -------
    Graph
        The graph, which ``celosia.compile`` and ``celosia.profile`` take.

    Raises
    ------
    ValueError
        If there is no such model, or the file cannot be used (``ModelError``).
    """
    if isinstance(model, Graph):
        return model
    return load(model if isinstance(model, bytes) else model_path(model), shapes, signature)


def core_of(config: Config | str) -> Config:
    """Return a core, or the one that ``preset`` names; raises ValueError for others."""
    if isinstance(config, Config):
        return config
    if not isinstance(config, str):
        raise InputError(f"config: wanted a Config or the name of a preset, got {config!r}")
    return preset(config)


def is_program(source: Source) -> bool:
    """Return whether a source is a compiled program, or the path or the contents of its file."""
    if isinstance(source, Program):
        return True
    if isinstance(source, bytes):
        return source.startswith(MAGIC)
    try:
        with Path(source).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_source(
    source: Source,
    shapes: Shapes | None = None,
    signature: str | None = None,
) -> Graph | Program:
    """Return the graph of a model, or the program of a program's file.

    Parameters
    ----------
    source : str, pathlib.Path, bytes or Program
        Path of a model or a program, name of a shipped model, the contents of a file, or a
        program.
    shapes : mapping of str to tuple of int, optional
        Shapes of the inputs of an ``.onnx`` file whose extents are free, by name; no name stands
        for the only input.
    signature : str, optional
        Signature of a ``.tflite`` file, or a subgraph without one; its first subgraph unless given.

    Returns
    -------
    Graph or Program
        The graph of a model, the program of a program's file.

    Raises
    ------
    ValueError
        If there is no shipped model of this name, or the source cannot be used (``ModelError``,
        ``ProgramError``).
    """
    if isinstance(source, (str, Path)):
        source = model_path(source)
    if not isinstance(source, Program) and not is_program(source):
        return load(source, shapes, signature)
    name = source if isinstance(source, Path) else "program"
    for option, value in (("signature", signature), ("shape", shapes)):
        if value:
            requirement = f"wanted no {option} for a program, which was compiled from one"
            raise ProgramError(f"{name}: {requirement}, got {value!r}")
    if isinstance(source, Program):
        return source
    return Program.from_bytes(source) if isinstance(source, bytes) else Program.load(source)


def open_program(
    source: Source,
    *,
    config: Config | str = "edge",
    batch: int | None = None,
    signature: str | None = None,
    shapes: Shapes | None = None,
) -> Program:
    """Return the program of a model or of a program's file.

    Parameters
    ----------
    source : str, pathlib.Path, bytes or Program
        A ``.tflite`` or ``.onnx`` model, or a program: its path or its contents; the name of a
        shipped model; or a program.
    config : Config or str
        The core, or the preset; a program has its own.
    batch : int, optional
        Samples of one run; 1 unless given. A program has its own.
    signature, shapes : optional
        As in ``read_source``.

    Raises
    ------
    ValueError
        If there is no shipped model or preset of this name, or the source cannot be used or
        compiled (``ModelError``, ``CompileError``, ``ProgramError``).
    """
    read = read_source(source, shapes, signature)
    if isinstance(read, Program):
        return read
    return compile_graph(read, core_of(config), 1 if batch is None else batch)


def open_session(program: Program, *, device: str = "machine", **options: Any) -> Session:
    """Return a program loaded into a device of its configuration.

    Parameters
    ----------
    program : Program
        The program.
    device : str
        One of ``backends.DEVICES``.
    **options
        ``cores`` and ``ports`` of a pod, whose cores divide the samples, see ``PodConfig``; and
        those of the device, see ``open_device``.

    Raises
    ------
    DeviceError
        If there is no such device, or the one-time load fails.
    ValueError
        If there is no such pod.
    """
    return Session(program, open_cores(device, program.config, program.memory_bytes, **options))
