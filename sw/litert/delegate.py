"""Delegate for LiteRT's interpreter."""

import ctypes
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celosia.hw.arch.config import Config
from celosia.sw.export import tflite
from celosia.sw.ir.program import Program
from celosia.sw.layers.errors import CompileError
from celosia.sw.layers.node import ModelError
from celosia.sw.litert import interface
from celosia.sw.litert.interface import Context, Node, Partition, numbers
from celosia.sw.litert.model import Graph
from celosia.sw.runtime.backends import require_options
from celosia.sw.runtime.opening import open_program, open_session
from celosia.sw.runtime.session import Session
from celosia.sw.runtime.statistics import Statistics


@dataclass
class _Kernel:
    """A partition on the core: its tensors have LiteRT's numbers."""

    operations: tuple[tflite.Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: list[tuple[int, ...]]  #: Shapes of the inputs that the program is for.
    session: Session

    def require_shapes(self, graph: Graph) -> None:
        """Raise RuntimeError if LiteRT's inputs have other shapes than those of the program."""
        shapes = graph.shapes(self.inputs)
        if shapes != self.shapes:
            raise RuntimeError(f"inputs: wanted shapes {self.shapes}, got {shapes}")

    def run(self, graph: Graph) -> None:
        """Read the inputs from LiteRT's memory, and write the outputs there."""
        self.require_shapes(graph)
        program = self.session.program
        arrays = [
            interface.contents(graph.tensor(number)).reshape(port.items, *port.shape)
            for number, port in zip(self.inputs, program.inputs, strict=True)
        ]
        for number, result in zip(self.outputs, self.session.run(arrays), strict=True):
            target = interface.contents(graph.tensor(number))
            target[...] = result.reshape(target.shape)


class Delegate:
    """Delegate for LiteRT's ``Interpreter(experimental_delegates=[...])``.

    LiteRT gives it the operators that the core can run, and runs all others itself. The results of
    delegated operators equal those of LiteRT's reference kernels, byte for byte. A delegate may
    serve several interpreters.

    Parameters
    ----------
    device : str
        Device that runs the programs, one of ``backends.DEVICES``.
    config : Config or str
        The core, or the name of its preset.
    **options
        ``cores`` of a pod and options of the device, as in ``open_session``.

    Raises
    ------
    ValueError
        If there is no such option.
    RuntimeError
        By the interpreter: at its start if LiteRT's structures are not those of version 2, at
        ``invoke`` if the core stops with an error.

    Examples
    --------
    >>> from ai_edge_litert.interpreter import Interpreter  # doctest: +SKIP
    >>> delegate = Delegate(config="micro")  # doctest: +SKIP
    >>> Interpreter("net.tflite", experimental_delegates=[delegate])  # doctest: +SKIP
    """

    def __init__(
        self, *, device: str = "machine", config: Config | str = "edge", **options: Any
    ) -> None:
        require_options(options)
        self._config, self._options = config, {"device": device, **options}
        self._programs: dict[bytes, Program | None] = {}
        self._kernels: dict[int, _Kernel] = {}
        self._numbers = itertools.count(1)
        # Callbacks live as long as the delegate.
        self._registration = interface.Registration(
            init=interface.Init(self._init),
            free=interface.Free(self._free),
            prepare=interface.Step(self._prepare_kernel),
            invoke=interface.Step(self._invoke),
            custom_name=b"Celosia",
            version=1,
        )
        self._record = interface.DelegateRecord(
            prepare=interface.Step(self._prepare), flags=interface.DYNAMIC_SHAPES
        )

    @property
    def statistics(self) -> list[Statistics]:
        """Costs of all runs, for each partition on a core."""
        return [kernel.session.statistics for kernel in self._kernels.values()]

    @property
    def programs(self) -> list[Program]:
        """Programs of the partitions; their layers are the delegated operators."""
        return [kernel.session.program for kernel in self._kernels.values()]

    def _get_native_delegate_pointer(self) -> int:
        """Return the address of the structure that LiteRT takes."""
        return ctypes.addressof(self._record)

    def _guarded(self, context: int, action: Callable[[Context], Any], failure: Any) -> Any:
        """Return the result of an action; an error becomes LiteRT's, with its text."""
        view = Context.from_address(context)
        try:
            return action(view)
        except Exception as error:
            text = f"Celosia: {error}".replace("%", "%%")
            view.report_error(context, text.encode())
            return failure

    def _prepare(self, context: int, delegate: int) -> int:
        """Choose the operators of the core: LiteRT replaces each partition by a kernel."""

        def choose(view: Context) -> int:
            graph = Graph(view, context)
            graph.require_known()
            pairs = ((number, graph.operation(number)) for number in graph.nodes())
            operations = {number: operation for number, operation in pairs if operation}
            while operations:
                refused = self._refused(
                    graph, operations, self._partitions(view, context, operations)
                )
                if not refused:
                    chosen = interface.int_array(operations)
                    return view.replace(context, self._registration, chosen, delegate)
                operations = {n: o for n, o in operations.items() if n not in refused}
            return interface.OK

        return self._guarded(context, choose, interface.ERROR)

    def _partitions(self, view: Context, context: int, nodes: Iterable[int]) -> list[Partition]:
        """Return the partitions that LiteRT would make of nodes."""
        array, count = ctypes.POINTER(Partition)(), ctypes.c_int()
        view.partitions(context, interface.int_array(nodes), array, count)
        return array[: count.value]

    def _refused(
        self,
        graph: Graph,
        operations: Mapping[int, tflite.Operation],
        partitions: Sequence[Partition],
    ) -> set[int]:
        """Return the nodes of partitions that the core does not run after all."""
        refused = set[int]()
        for partition in partitions:
            nodes = numbers(partition.nodes)
            members = [operations[number] for number in nodes]
            program = self._program(graph, members, *graph.ends(partition))
            if program is not None:
                refused |= {nodes[step.place] for step in program.host if step.place < len(nodes)}
                continue
            alone = {
                number
                for number, one in zip(nodes, members, strict=True)
                if self._program(graph, [one], *graph.operands(one)) is None
            }
            refused |= alone or set(nodes)
        return refused

    def _program(
        self,
        graph: Graph,
        operations: Sequence[tflite.Operation],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> Program | None:
        """Return the program of operations; None if the compiler refuses them."""
        content = graph.file(operations, inputs, outputs)
        if content not in self._programs:
            try:
                self._programs[content] = open_program(content, config=self._config)
            except (ModelError, CompileError):
                self._programs[content] = None
        return self._programs[content]

    def _init(self, context: int, buffer: int, length: int) -> int:
        """Load the program of a partition into a device; return the number of the kernel."""

        def load(view: Context) -> int:
            graph, partition = Graph(view, context), Partition.from_address(buffer)
            members = map(graph.operation, numbers(partition.nodes))
            number = next(self._numbers)
            operations = tuple(operation for operation in members if operation)
            self._kernels[number] = self._kernel(graph, operations, *graph.ends(partition))
            return number

        return self._guarded(context, load, 0)

    def _kernel(
        self,
        graph: Graph,
        operations: tuple[tflite.Operation, ...],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> _Kernel:
        """Return a kernel for the present shapes of its inputs."""
        program = self._program(graph, operations, inputs, outputs)
        if program is None:
            raise RuntimeError(f"the core does not take inputs of shapes {graph.shapes(inputs)}")
        session = open_session(program, **self._options)
        return _Kernel(operations, inputs, outputs, graph.shapes(inputs), session)

    def _prepare_kernel(self, context: int, node: int) -> int:
        """Take new shapes of the inputs of a kernel."""

        def renew(view: Context) -> int:
            graph, number = Graph(view, context), self._number(node)
            kernel = self._kernels[number]
            if graph.shapes(kernel.inputs) != kernel.shapes:
                kernel.session.close()
                ends = kernel.operations, kernel.inputs, kernel.outputs
                self._kernels[number] = self._kernel(graph, *ends)
            return interface.OK

        return self._guarded(context, renew, interface.ERROR)

    def _invoke(self, context: int, node: int) -> int:
        """Run a kernel."""

        def run(view: Context) -> int:
            self._kernels[self._number(node)].run(Graph(view, context))
            return interface.OK

        return self._guarded(context, run, interface.ERROR)

    def _number(self, node: int) -> int:
        """Return the number of a node's kernel; raises RuntimeError if it could not be loaded."""
        number = Node.from_address(node).user_data
        if number not in self._kernels:
            raise RuntimeError("its program could not be loaded")
        return number

    def _free(self, context: int, number: int | None) -> None:
        """Close the device of a kernel."""
        if number in self._kernels:
            self._kernels.pop(number).session.close()
