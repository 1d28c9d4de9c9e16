"""Signatures of a model as functions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from celosia.sw.ir.graph import Signature
from celosia.sw.runtime.arrays import InputError

if TYPE_CHECKING:
    from celosia.sw.runtime.interpreter import Interpreter


class SignatureRunner:
    """A signature of a model, called with its inputs by name, as in TensorFlow Lite.

    Parameters
    ----------
    interpreter : Interpreter
        The interpreter of the signature's subgraph.
    signature : Signature
        The signature.

    Examples
    --------
    >>> encode = interpreter.get_signature_runner("encode")  # doctest: +SKIP
    >>> y = encode(x=x)["y"]  # doctest: +SKIP
    """

    def __init__(self, interpreter: "Interpreter", signature: Signature) -> None:
        self._interpreter = interpreter
        inputs, outputs = interpreter.names
        self._inputs = _indices(inputs, signature.inputs)
        self._outputs = _indices(outputs, signature.outputs, len(inputs))
        self._allocated = False

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Return the outputs by name for the inputs by name; the first extent is the batch.

        Raises
        ------
        ValueError
            If an input is missing or unknown, or has another shape or type.
        """
        if sorted(inputs) != sorted(self._inputs):
            raise InputError(f"inputs: wanted {sorted(self._inputs)}, got {sorted(inputs)}")
        interpreter, arrays = self._interpreter, dict[int, np.ndarray]()
        for name, value in inputs.items():
            array = arrays[self._inputs[name]] = np.asarray(value)
            if array.shape != tuple(self.get_input_details()[name]["shape"]):
                interpreter.resize_tensor_input(self._inputs[name], array.shape)
                self._allocated = False
        if not self._allocated:
            interpreter.allocate_tensors()
            self._allocated = True
        for index, array in arrays.items():
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return {name: interpreter.get_tensor(index) for name, index in self._outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Return the entries of ``Interpreter.get_input_details`` by the name of the input."""
        return _by_name(self._inputs, self._interpreter.get_input_details())

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Return the entries of ``Interpreter.get_output_details`` by the name of the output."""
        return _by_name(self._outputs, self._interpreter.get_output_details())

    def close(self) -> None:
        """Release the device; the next call opens one again."""
        self._interpreter.close()
        self._allocated = False


def _indices(
    names: Sequence[str], pairs: Iterable[tuple[str, int]], first: int = 0
) -> dict[str, int]:
    """Return the index of each input or output of a signature; the first has ``first``."""
    return {name: first + names.index(name) for name, _ in pairs if name in names}


def _by_name(
    indices: Mapping[str, int], details: Sequence[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    by_index = {one["index"]: one for one in details}
    return {name: by_index[index] for name, index in indices.items()}
