"""ONNX model of some nodes of an edge program."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from celosia.sw.executorch.operators import form_of
from celosia.sw.layers.node import ModelError

#: Version of the operators, and of the file.
_OPSET, _VERSION = 20, 10

#: Operators that a matrix product before them takes in.
_BOUNDS = ("Clip", "Relu")


class EdgeGraph:
    """Nodes and constants of an edge program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        The program, in the edge dialect.
    tensors : mapping of str to torch.Tensor, optional
        Constants of the program, if it has none.
    """

    def __init__(self, program: Any, tensors: Mapping[str, Any] | None = None) -> None:
        self.nodes = list(program.graph.nodes)
        signature = program.graph_signature
        tables = (
            signature.inputs_to_parameters,
            signature.inputs_to_buffers,
            signature.inputs_to_lifted_tensor_constants,
        )
        tensors = {**program.constants, **(program.state_dict if tensors is None else tensors)}
        changed = {*signature.buffers_to_mutate.values()}
        self._tensors = {
            name: tensors[key]
            for table in tables
            for name, key in table.items()
            if key not in changed
        }

    def constant(self, node: Any) -> np.ndarray | None:
        """Return the array of a node; None if it is computed."""
        tensor = self._tensors.get(getattr(node, "name", ""))
        return None if tensor is None else tensor.detach().cpu().numpy()

    def model(self, nodes: Iterable[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
        """Return the content of an ``.onnx`` file.

        Parameters
        ----------
        nodes : iterable of torch.fx.Node
            Operators, in order.
        inputs, outputs : sequence of torch.fx.Node
            Ends of the model, in its order.

        Raises
        ------
        ModelError
            If an operator has no form in ONNX.
        """
        steps, constants = [], {}
        for node in nodes:
            form = form_of(node, self.constant)
            if form is None:
                raise ModelError(f"{node.name}: {node.target} is not supported")
            kind, operands, attributes = form
            names = []
            for number, operand in enumerate(operands):
                is_array = isinstance(operand, np.ndarray)
                array = operand if is_array else self.constant(operand)
                names.append(f"{node.name}:{number}" if is_array else operand.name)
                if array is not None:
                    constants[names[-1]] = numpy_helper.from_array(array, names[-1])
            if kind in _BOUNDS and len(operands[0].users) == 1 and _is_view(steps, names[0]):
                # A product of several axes is one of two axes between views; bounds precede them.
                view, bounded = steps.pop(), f"{node.name}:view"
                steps.append(helper.make_node(kind, [view.input[0], *names[1:]], [bounded]))
                kind, names = "Reshape", [bounded, view.input[1]]
            steps.append(helper.make_node(kind, names, [node.name], **attributes))
        starts, ends = [*map(_end, inputs)], [*map(_end, outputs)]
        graph = helper.make_graph(steps, "subgraph", starts, ends, list(constants.values()))
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_VERSION)
        return model.SerializeToString()


def _is_view(steps: Sequence[Any], name: str) -> bool:
    return bool(steps) and steps[-1].op_type == "Reshape" and steps[-1].output[0] == name


def _end(node: Any) -> Any:
    value = node.meta["val"]
    dtype = np.dtype(str(value.dtype).removeprefix("torch."))
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(node.name, kind, list(value.shape))
