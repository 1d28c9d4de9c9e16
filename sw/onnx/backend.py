"""Backend of ``onnx.backend.base``."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend import base

from celosia.hw.arch.config import Config
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.onnx.model import load
from celosia.sw.ir.graph import Graph
from celosia.sw.ir.program import ProgramError
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.node import ModelError
from celosia.sw.runtime.backends import DEVICES
from celosia.sw.runtime.opening import core_of, open_session
from celosia.sw.runtime.session import Session

#: ONNX's name of its device, if no other is given.
_CPU = "CPU"


class Prepared(base.BackendRep):
    """A model ready to run.

    Parameters
    ----------
    model : onnx.ModelProto
        The model; operators in float run on the host.
    config : Config
        The core.
    device : str
        One of ``backends.DEVICES``.
    **options
        As in ``open_session``.
    """

    def __init__(self, model: Any, config: Config, device: str, **options: Any) -> None:
        self._model, self._config = model, config
        self._options = {"device": device, **options}
        constants = {tensor.name for tensor in model.graph.initializer}
        self._names = [end.name for end in model.graph.input if end.name not in constants]
        self._opened: tuple[tuple[bytes, ...], Graph, Session] | None = None

    def run(
        self, inputs: Sequence[Any] | Mapping[str, Any], **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Return the outputs.

        Parameters
        ----------
        inputs : sequence or mapping
            Arrays of the graph's inputs without initialisers, in order or by name. Those after the
            first ones may be constants of the program, such as a shape; another value of these
            compiles the model again.
        **kwargs
            Options of other backends, without meaning here.

        Returns
        -------
        tuple of numpy.ndarray
            All outputs of the graph.

        Raises
        ------
        BackendIsNotSupposedToImplementIt
            If Celosia refuses the model, with the reason; a ``unittest.SkipTest``.
        """
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in self._names]
        arrays = [np.asarray(x) for x in map(_array, inputs)]
        reason = "wanted an input"
        for computed in range(len(arrays), 0, -1):
            try:
                return self._run(arrays, computed)
            except (ModelError, CompileError, ProgramError) as error:
                reason = str(error)
        from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

        raise BackendIsNotSupposedToImplementIt(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the device."""
        if self._opened is not None:
            self._opened[2].close()
        self._opened = None

    def _run(self, arrays: Sequence[np.ndarray], computed: int) -> tuple[np.ndarray, ...]:
        """Run the model, with all inputs after the first ``computed`` as constants."""
        graph, session = self._ready(arrays, computed)
        ports = session.program.inputs
        shaped = [x.reshape(-1, *p.shape) for x, p in zip(arrays[:computed], ports, strict=True)]
        results = session.run(shaped)
        shapes = [graph.tensors[number].shape for number in graph.outputs]
        return tuple(
            result.reshape(shape if result.size == np.prod(shape) else result.shape)
            for result, shape in zip(results, shapes, strict=True)
        )

    def _ready(self, arrays: Sequence[np.ndarray], computed: int) -> tuple[Graph, Session]:
        """Return graph and session for the constants of a run; those of the last are kept."""
        constants = tuple(array.tobytes() for array in arrays[computed:])
        if self._opened is None or self._opened[0] != constants:
            self.close()
            model = _closed(self._model, dict(zip(self._names, arrays, strict=True)), computed)
            graph = load(model.SerializeToString(), floats=True)
            session = open_session(compile_graph(graph, self._config), **self._options)
            self._opened = constants, graph, session
        return self._opened[1:]


class Backend(base.Backend):
    """Celosia as a backend of ONNX.

    ``device``: ``CPU`` stands for ``machine``, the machine model; others are those of
    ``backends.DEVICES``. Further options of the methods: ``config``, the core or the name of its
    preset (``edge``), and those of ``open_session``.

    Examples
    --------
    >>> import onnx  # doctest: +SKIP
    >>> (y,) = Backend.run_model(onnx.load("net.onnx"), [x], config="micro")  # doctest: +SKIP
    """

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether there is such a device."""
        return device == _CPU or device.split(":")[0] in DEVICES

    @classmethod
    def prepare(
        cls, model: Any, device: str = _CPU, *, config: Config | str = "edge", **options: Any
    ) -> Prepared:
        """Return a model ready to run.

        Parameters
        ----------
        model : onnx.ModelProto
            The model.
        device, config, **options
            As for the class.

        Raises
        ------
        onnx.checker.ValidationError
            If the model is no valid one.
        """
        onnx.checker.check_model(model)
        return Prepared(model, core_of(config), "machine" if device == _CPU else device, **options)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Sequence[Any],
        device: str = _CPU,
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, ...]:
        """Return the outputs of a node; arguments as in ``prepare`` and ONNX's own method."""
        names = dict(zip((name for name in node.input if name), map(_array, inputs), strict=True))
        ends = [_end(name, np.asarray(x)) for name, x in names.items()]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        opsets = [helper.make_opsetid(node.domain, version)]
        graph = helper.make_graph([node], "node", ends, results)
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets))
        with cls.prepare(model, device, **options) as prepared:
            return prepared.run(list(names.values()))


def _array(value: Any) -> Any:
    """Return the array of a tensor of ONNX, or an array as given."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _end(name: str, array: np.ndarray) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _closed(model: Any, inputs: Mapping[str, np.ndarray], computed: int) -> Any:
    """Return a model whose inputs after the first ``computed`` are constants."""
    if computed == len(inputs):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    constants = list(inputs.items())[computed:]
    result.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in constants)
    left = [end for end in result.graph.input if end.name not in dict(constants)]
    del result.graph.input[:]
    result.graph.input.extend(left)
    return result
