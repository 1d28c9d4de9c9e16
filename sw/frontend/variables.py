"""Variables of a model, followed while its operators are read in order.

A variable is the tensor that was assigned last. Reading it is no work: operators read that tensor.
Before the first assignment it is an input of the model that the runtime keeps: a state.
"""

from collections.abc import Sequence

import numpy as np
import tflite

from celosia.sw.ir.graph import State, Tensor, short_name
from celosia.sw.layers.node import ModelError, Node, described

#: Operators that this module reads.
KINDS = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")

#: A variable: name of a resource, or number of a variable tensor.
_Key = str | int


class Variables:
    """Variables of a subgraph.

    - ``initial``: contents before the first invocation.
    - ``values``: number of the tensor that each was assigned last.
    - ``alias``: tensors that stand for results of READ_VARIABLE, and for variable tensors.
    """

    def __init__(self) -> None:
        self.initial: dict[_Key, np.ndarray] = {}
        self.values: dict[_Key, int] = {}
        self.alias: dict[int, int] = {}
        self._handles: dict[int, str] = {}
        self._first: dict[_Key, int] = {}

    def follow(
        self, kind: str, node: Node, inputs: Sequence[int], outputs: Sequence[int]
    ) -> np.ndarray | None:
        """Follow an operator; return the contents of a variable that becomes a state.

        Raises ModelError if it names no variable, or one without contents.
        """
        results = 0 if kind == "ASSIGN_VARIABLE" else 1
        count = {"VAR_HANDLE": 0, "READ_VARIABLE": 1, "ASSIGN_VARIABLE": 2}[kind]
        if (len(inputs), len(outputs)) != (count, results):
            raise ModelError(f"wanted {count} inputs, got {len(inputs)}")
        if kind == "VAR_HANDLE":
            options = node.require_options(tflite.VarHandleOptions)
            parts = (options.Container() or b"", options.SharedName() or b"")
            self._handles[outputs[0]] = "/".join(part.decode("utf-8", "replace") for part in parts)
            return None
        if inputs[0] not in self._handles:
            raise ModelError("wanted the handle of a variable")
        key = self._handles[inputs[0]]
        if kind == "ASSIGN_VARIABLE":
            node.tensor(1)
            self.values[key] = inputs[1]
        elif key in self.values:
            self.alias[outputs[0]] = self.values[key]
        elif key not in self.initial:
            raise ModelError("wanted a variable with initial contents")
        elif self.initial[key].dtype != node.outputs[0].dtype:
            raise ModelError(f"wanted {self.initial[key].dtype}, got {described(node.outputs[0])}")
        else:
            self.values[key] = self._first[key] = outputs[0]
            return self.initial[key]
        return None

    def initialise(self, other: "Variables", tensors: Sequence[Tensor]) -> None:
        """Take the contents that another subgraph, all of it constant, gives variables."""
        for key, number in other.values.items():
            data = tensors[number].data
            if data is None:
                raise ModelError("wanted variables initialised with constants, got computed ones")
            self.initial[key] = data

    def renew(self, number: int, before: int, after: int, tensor: Tensor) -> None:
        """Make an operator's result the next contents of a variable tensor.

        - ``number``: the tensor in the file.
        - ``before``, ``after``: the operator's operand and result.
        - ``tensor``: the variable tensor.
        """
        if number not in self._first:
            self._first[number] = before
            # TensorFlow Lite takes all others for 0 without a zero point.
            zero = tensor.quantization.zero_point if tensor.quantization else 0
            start = zero if tensor.dtype == np.int8 else 0
            self.initial[number] = np.full(tensor.shape, start, tensor.dtype)
        self.values[number] = self.alias[number] = after

    def states(self, tensors: Sequence[Tensor]) -> tuple[State, ...]:
        """Return the states kept between invocations.

        Raises ModelError if a variable is assigned a tensor that it cannot hold.
        """
        states = []
        for key, number in self._first.items():
            before, after = tensors[number], tensors[self.values[key]]
            same = before.shape == after.shape and before.dtype == after.dtype
            if after.data is not None or not same:
                is_constant = "constant " if after.data is not None else ""
                got = f"{is_constant}{after.dtype.name} {after.shape}"
                requirement = f"computed {before.dtype.name} {before.shape} assigned"
                raise ModelError(
                    f"variable {short_name(before.name)!r}: wanted {requirement}, got {got}"
                )
            scales = before.quantization
            if scales is not None and not scales.equals(after.quantization):
                raise ModelError(
                    f"variable {short_name(before.name)!r}: wanted one scale and zero point"
                )
            states.append(State(number, self.values[key], self.initial[key]))
        return tuple(states)
