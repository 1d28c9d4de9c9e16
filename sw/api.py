"""Functions of the package ``celosia`` itself: compile a network, quantise one."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.files import writable, write_atomically
from celosia.sw.frontend.source import files_of
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program
from celosia.sw.quantize.process import Converter
from celosia.sw.quantize.sources import require_tools, source_of
from celosia.sw.runtime.arrays import InputError, quantized
from celosia.sw.runtime.opening import Shapes, core_of, graph_of


def compile(
    model: str | Path | bytes | Graph,
    config: Config | str = "edge",
    batch: int = 1,
    signature: str | None = None,
    shapes: Shapes | None = None,
) -> Program:
    """Return the program of a quantised network.

    Parameters
    ----------
    model : str, pathlib.Path, bytes or Graph
        A ``.tflite`` or ``.onnx`` file: its path or its contents; the name of a shipped model; or
        the graph of a network.
    config : Config or str
        The core; or a preset, with changes: ``edge``, ``edge,weight_rows=4``.
    batch : int
        Samples of one run of the core, 1 to 4096.
    signature : str, optional
        Signature of a ``.tflite`` file, or name of a subgraph without one; the first subgraph
        unless given.
    shapes : mapping of str to tuple of int, optional
        Shapes of the inputs of an ``.onnx`` file whose extents are free, by name; no name stands
        for the only input.

    Returns
    -------
    Program
        ``Interpreter`` and ``InferenceSession`` take it; ``save`` writes its file.

    Raises
    ------
    ValueError
        If there is no such model or preset, the file cannot be used (``ModelError``), or a layer
        cannot run (``CompileError``).

    Examples
    --------
    >>> compile("mnist_mlp", config="nano", batch=16).inputs[0].shape
    (784,)
    """
    graph = graph_of(model, signature, shapes)
    return compile_graph(graph, core_of(config), batch)


def quantize(
    model: str | Path,
    calibration: np.ndarray | Mapping[str, np.ndarray],
    output: str | Path | None = None,
    shapes: Shapes | None = None,
) -> bytes:
    """Return a float network in int8, and write it where ``output`` names a file.

    Parameters
    ----------
    model : str or pathlib.Path
        Keras model, folder of a SavedModel, program of ``torch.export``, float ``.tflite`` or
        ``.onnx`` file.
    calibration : numpy.ndarray, or mapping of str to numpy.ndarray
        Samples of ordinary content that ranges are measured on, a few hundred: shape
        ``(N, *shape of the input)``, of the input's type or float. An array of each input under its
        name where there are several.
    output : str or pathlib.Path, optional
        File to write: ``.onnx`` for a network of ONNX, else ``.tflite``.
    shapes : mapping of str to tuple of int, optional
        As in ``compile``.

    Returns
    -------
    bytes
        The contents of the quantised file, which ``compile`` takes.

    Raises
    ------
    ValueError
        If the network cannot be read or quantised (``QuantizeError``), samples are of another shape
        or type or not finite (``InputError``), or ``output`` cannot be written.
    ModuleNotFoundError
        If packages for this kind of network are missing, with the command that installs them.
    """
    path = Path(model)
    source = source_of(path)
    require_tools(path, source)
    if output is not None:
        if Path(output).suffix.lower() != source.result:
            raise InputError(f"output: wanted a name with {source.result}, got {str(output)!r}")
        writable(Path(output), sources=files_of(path))
    with Converter(path, shapes) as converter:
        content = converter.quantized(_samples(calibration, converter.ports))
    if output is not None:
        write_atomically({output: content})
    return content


def _samples(
    calibration: np.ndarray | Mapping[str, np.ndarray], ports: list[Port]
) -> list[np.ndarray]:
    """Return the samples of each input, in order, as the network takes them."""
    names = [port.name for port in ports]
    if not isinstance(calibration, Mapping):
        calibration = {names[0]: calibration} if len(names) == 1 else {}
    if sorted(calibration) != sorted(names):
        raise InputError(f"calibration: wanted {sorted(names)}, got {sorted(calibration)}")
    return [quantized(np.asarray(calibration[port.name]), port) for port in ports]
