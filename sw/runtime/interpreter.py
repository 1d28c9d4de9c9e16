"""Python interfaces of TensorFlow Lite and of ONNX Runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from celosia.hw.arch.config import Config
from celosia.sw.frontend.source import signatures_of
from celosia.sw.ir.graph import Signature
from celosia.sw.ir.names import Names
from celosia.sw.ir.notebook import ends_table
from celosia.sw.ir.parts import MOST_BATCH, Port
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import label, names_of, quantized
from celosia.sw.runtime.opening import Shapes, Source, is_program, open_program, open_session
from celosia.sw.runtime.session import InputError, Session, Statistics
from celosia.sw.runtime.signatures import SignatureRunner
from celosia.sw.shipped import model_path


class Interpreter:
    """A model with the interface of TensorFlow Lite's ``Interpreter``.

    Parameters
    ----------
    model_path : str, pathlib.Path or Program, optional
        A ``.tflite`` or ``.onnx`` file, a program's, or the name of a shipped model; or what
        ``celosia.compile`` returns.
    model_content : bytes, optional
        The contents instead of the path.
    device, config, signature, shapes, **options
        As in ``open_program`` and ``open_session``.

    Raises
    ------
    ValueError
        If not exactly one of path and contents is given, or as in ``open_program``.

    Examples
    --------
    >>> interpreter = Interpreter(model_path="model.tflite")  # doctest: +SKIP
    >>> interpreter.allocate_tensors()  # doctest: +SKIP
    >>> interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)  # doctest: +SKIP
    >>> interpreter.invoke()  # doctest: +SKIP
    >>> y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])  # doctest: +SKIP
    """

    def __init__(
        self,
        model_path: str | Path | Program | None = None,
        model_content: bytes | None = None,
        *,
        device: str = "machine",
        config: Config | str = "edge",
        signature: str | None = None,
        shapes: Shapes | None = None,
        **options: Any,
    ) -> None:
        source = model_path if model_content is None else model_content
        if source is None or (model_path is not None and model_content is not None):
            raise ValueError("wanted one of model_path and model_content")
        self._source: Source = source
        self._compiling = {"config": config, "signature": signature, "shapes": shapes}
        self._options = {"device": device, **options}
        self._program = open_program(source, **self._compiling)
        self._samples = max(self._program.inputs[0].items, self._program.batch)
        self._session: Session | None = None
        self._inputs: dict[int, np.ndarray] = {}
        self._outputs: dict[int, np.ndarray] = {}
        self._runners: list[SignatureRunner] = []

    @property
    def statistics(self) -> Statistics:
        """Costs of all invocations since ``allocate_tensors``."""
        return self._opened().statistics

    @property
    def names(self) -> tuple[Names, Names]:
        """Names of inputs and of outputs, as ``InferenceSession`` takes them."""
        return names_of(self._program.inputs), names_of(self._program.outputs)

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int]) -> None:
        """Choose another batch for all inputs; ``allocate_tensors`` applies it.

        Raises
        ------
        ValueError
            If more than the first extent changes.
        """
        port = self._port(input_index, self._program.inputs)
        size = tuple(int(extent) for extent in tensor_size)
        if len(size) < 2 or size[0] < 1 or size[1:] != port.shape:
            extents = ", ".join(map(str, port.shape))
            raise ValueError(f"{label(port)}: wanted shape (N, {extents}), got {size}")
        self._samples = size[0]
        self.close()

    def allocate_tensors(self) -> None:
        """Make inputs and outputs ready for the batch chosen; compiles the model for it.

        The cores of a pod divide the batch.
        """
        batch = min(-(-self._samples // self._options.get("cores", 1)), MOST_BATCH)
        stateful = bool(self._program.variables)
        if batch != self._program.batch and not stateful and not is_program(self._source):
            self.close()
            self._program = open_program(self._source, batch=batch, **self._compiling)
        if self._session is not None:
            self._session.reset()
        else:
            self._session = open_session(self._program, **self._options)
        self._inputs = {
            index: np.zeros((self._samples, *port.shape), port.dtype)
            for index, port in enumerate(self._program.inputs)
        }
        self._outputs = {}

    def reset_all_variables(self) -> None:
        """Give all variables of the model their initial contents."""
        self._opened().reset()

    def close(self) -> None:
        """Release the device; ``allocate_tensors`` opens one again."""
        if self._session is not None:
            self._session.close()
        self._session = None
        for runner in self._runners:
            runner.close()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Return the names of inputs and outputs of each signature of the file.

        There are none of a program, or of an ``.onnx`` file.
        """
        return {
            key: {
                "inputs": [name for name, _ in signature.inputs],
                "outputs": [name for name, _ in signature.outputs],
            }
            for key, signature in self._signatures().items()
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a function that runs a signature; None stands for the only one.

        Raises
        ------
        ValueError
            If there is no such signature, or None stands for several.
        """
        known = self._signatures()
        keys = [signature_key] if signature_key is not None else list(known)
        if len(keys) != 1 or keys[0] not in known:
            names = ", ".join(map(repr, known))
            requirement = f"one of {names}" if known else "a model with signatures"
            raise ValueError(f"signature_key: wanted {requirement}, got {signature_key!r}")
        compiling = self._compiling | {"signature": keys[0]}
        source = self._source
        ends = {"model_content" if isinstance(source, bytes) else "model_path": source}
        interpreter = Interpreter(**ends, **compiling, **self._options)
        self._runners.append(SignatureRunner(interpreter, known[keys[0]]))
        return self._runners[-1]

    def _signatures(self) -> dict[str, Signature]:
        source = self._source
        if isinstance(source, (str, Path)):
            source = model_path(source)
        if isinstance(source, Program) or is_program(source):
            return {}
        return signatures_of(source)

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return a dictionary for each input, with the keys of TensorFlow Lite."""
        return [self._details(n, port) for n, port in enumerate(self._program.inputs)]

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return a dictionary for each output, with the keys of TensorFlow Lite."""
        first = len(self._program.inputs)
        outputs = self._program.outputs
        return [self._details(n, port) for n, port in enumerate(outputs, first)]

    def set_tensor(self, tensor_index: int, value: np.ndarray) -> None:
        """Set an input.

        Raises
        ------
        ValueError
            If the tensor is no input, or ``value`` has another shape or type.
        RuntimeError
            If ``allocate_tensors`` has not been called.
        """
        self._opened()
        port = self._port(tensor_index, self._program.inputs)
        value = np.asarray(value)
        shape = (self._samples, *port.shape)
        if value.dtype != port.dtype or value.shape != shape:
            raise InputError(
                f"{label(port)}: wanted {port.dtype} of shape {shape}, "
                f"got {value.dtype} of shape {value.shape}"
            )
        self._inputs[tensor_index] = value.copy()

    def invoke(self) -> None:
        """Run the model on the inputs."""
        results = self._opened().run([self._inputs[n] for n in sorted(self._inputs)])
        self._outputs = dict(enumerate(results, len(self._inputs)))

    def get_tensor(self, tensor_index: int) -> np.ndarray:
        """Return a copy of an input, or of an output after ``invoke``.

        Raises
        ------
        ValueError
            If there is no such tensor, or it has not been computed yet.
        """
        tensors = self._inputs | self._outputs
        if tensor_index not in tensors:
            raise ValueError(f"tensor: wanted one of {sorted(tensors)}, got {tensor_index}")
        return tensors[tensor_index].copy()

    def __repr__(self) -> str:
        return _shown(self, self._program, self._options["device"], self._samples)

    def _repr_html_(self) -> str:
        return ends_table(repr(self), self._program.inputs, self._program.outputs)

    def _opened(self) -> Session:
        if self._session is None:
            raise RuntimeError("allocate_tensors has not been called")
        return self._session

    def _port(self, index: int, ports: Sequence[Port]) -> Port:
        if not 0 <= index < len(ports):
            raise ValueError(f"input: wanted 0 to {len(ports) - 1}, got {index}")
        return ports[index]

    def _details(self, index: int, port: Port) -> dict[str, Any]:
        shape = np.array([self._samples, *port.shape], np.int32)
        # Floating point has none, as in TensorFlow Lite.
        scales = [] if port.dtype == "float32" else [port.scale]
        return {
            "name": port.tensor_name or port.name,
            "index": index,
            "shape": shape,
            "shape_signature": np.array([-1, *port.shape], np.int32),
            "dtype": np.dtype(port.dtype).type,
            "quantization": (port.scale, port.zero_point) if scales else (0.0, 0),
            "quantization_parameters": {
                "scales": np.array(scales, np.float32),
                "zero_points": np.array([port.zero_point] * len(scales), np.int32),
                "quantized_dimension": 0,
            },
            "sparsity_parameters": {},
        }


@dataclass(frozen=True)
class NodeArgument:
    """Description of an input or output, as in ONNX Runtime."""

    name: str
    shape: list[str | int]
    type: str


class InferenceSession:
    """A model with the interface of ONNX Runtime's ``InferenceSession``.

    Parameters
    ----------
    path_or_bytes : str, pathlib.Path, bytes or Program
        A ``.tflite`` or ``.onnx`` model or a program; the name of a shipped model; or what
        ``celosia.compile`` returns.
    device, config, batch, signature, shapes, **options
        As in ``open_program`` and ``open_session``. The device is held until ``close``, or the end
        of a ``with`` block.

    Examples
    --------
    >>> session = InferenceSession("model.tflite", batch=64)  # doctest: +SKIP
    >>> (y,) = session.run(None, {session.get_inputs()[0].name: x})  # doctest: +SKIP
    """

    def __init__(
        self,
        path_or_bytes: Source,
        *,
        device: str = "machine",
        config: Config | str = "edge",
        batch: int | None = None,
        signature: str | None = None,
        shapes: Shapes | None = None,
        **options: Any,
    ) -> None:
        compiling: dict[str, Any] = {"config": config, "signature": signature, "shapes": shapes}
        program = open_program(path_or_bytes, batch=batch, **compiling)
        self._device = device
        self._session = open_session(program, device=device, **options)

    def __repr__(self) -> str:
        program = self._session.program
        return _shown(self, program, self._device, program.batch)

    def _repr_html_(self) -> str:
        program = self._session.program
        return ends_table(repr(self), program.inputs, program.outputs)

    def reset(self) -> None:
        """Give all variables of the model their initial contents."""
        self._session.reset()

    def close(self) -> None:
        """Release the device; the session cannot be used afterwards."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def statistics(self) -> Statistics:
        """Costs of all runs."""
        return self._session.statistics

    def get_inputs(self) -> list[NodeArgument]:
        """Return a description of each input."""
        return [_argument(port) for port in self._session.program.inputs]

    def get_outputs(self) -> list[NodeArgument]:
        """Return a description of each output."""
        return [_argument(port) for port in self._session.program.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, np.ndarray],
        *,
        progress: bool = False,
    ) -> list[np.ndarray]:
        """Return outputs, of the model's types, for any number of samples.

        Parameters
        ----------
        output_names : sequence of str or None
            Names of outputs in the order wanted; None, or no name, for all.
        input_feed : mapping of str to numpy.ndarray
            For each input its type, or float, then quantised with its scale; shape ``(N, ...)``.
        progress : bool
            Show the progress of a long run on the standard error stream.

        Raises
        ------
        InputError
            If a name is unknown or missing, or an input has a wrong shape or type.
        """
        inputs = self._session.program.inputs
        names = names_of(inputs)
        arrays = {names.keys.get(name, name): array for name, array in input_feed.items()}
        if sorted(arrays) != sorted(names) or len(arrays) != len(input_feed):
            raise InputError(f"inputs: wanted {sorted(names)}, got {sorted(input_feed)}")
        feeds = [quantized(np.asarray(arrays[port.name]), port) for port in inputs]
        outputs = names_of(self._session.program.outputs)
        requested = list(output_names or outputs)
        for name in requested:
            if name not in outputs.keys:
                raise InputError(f"outputs: wanted some of {list(outputs)}, got {name!r}")
        results = dict(zip(outputs, self._session.run(feeds, progress=progress), strict=True))
        return [results[outputs.keys[name]] for name in requested]


def _shown(shown: object, program: Program, device: object, batch: int) -> str:
    name, core = type(shown).__name__, program.config.name
    return f"<{name} {program.name!r} on {core}, device {device}, batch {batch}>"


def _argument(port: Port) -> NodeArgument:
    kind = "float" if port.dtype == "float32" else port.dtype
    return NodeArgument(port.name, ["N", *port.shape], f"tensor({kind})")
