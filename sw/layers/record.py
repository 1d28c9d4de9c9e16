"""The record of an operator, and the attributes that its shape rule checks.

An operator appears four times in the life of a model: a front end reads it, the compiler lowers it
to work of the core or leaves it to the host, and the host runs it. The record holds the function
for each of these, and the limits that ``celosia report --operators`` prints.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, short_name
from celosia.sw.ir.parts import HostOperator, Operand
from celosia.sw.layers.node import Node

#: Rows and columns of windows and blocks, elements of margins: at most.
EXTENT = 1 << 20

#: Greatest number of single precision.
_GREATEST = float(np.finfo(np.float32).max)


class Mismatch(ValueError):
    """An operator that is not valid; the message names the requirement."""

    def __init__(self, requirement: str) -> None:
        super().__init__(f"wanted {requirement}")


def require(holds: bool, requirement: str, got: object = None) -> None:
    """Raise Mismatch if a condition does not hold."""
    if not holds:
        raise Mismatch(requirement if got is None else f"{requirement}, got {got}")


class Attributes:
    """The attributes of an operator.

    Every method raises Mismatch if the attribute is missing or of another kind.
    """

    def __init__(self, operator: HostOperator) -> None:
        self._attributes = operator.attributes

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a whole number."""
        return self._number(self._attributes.get(name), name, low, high)

    def _number(self, number: Any, name: str, low: int, high: int) -> int:
        good = type(number) is int and low <= number <= high
        require(good, f"{name} from {low} to {high}", number)
        return number

    def integers(self, name: str, count: int, low: int, high: int) -> list[int]:
        """Return ``count`` whole numbers."""
        numbers = self._attributes.get(name)
        good = isinstance(numbers, list | tuple) and len(numbers) == count
        require(good, f"{count} numbers as {name}", numbers)
        assert numbers is not None
        return [self._number(number, name, low, high) for number in numbers]

    def pairs(self, name: str, count: int = 2) -> list[list[int]]:
        """Return pairs of numbers from 0 on."""
        pairs = self._attributes.get(name)
        good = isinstance(pairs, list | tuple) and len(pairs) == count
        require(good, f"{count} pairs as {name}", pairs)
        assert pairs is not None
        for pair in pairs:
            good = isinstance(pair, list | tuple) and len(pair) == 2
            good = good and all(type(number) is int and 0 <= number <= EXTENT for number in pair)
            require(good, f"pairs as {name}", pairs)
        return [list(pair) for pair in pairs]

    def axes(self, name: str, rank: int) -> list[int]:
        """Return some different dimensions of ``rank``."""
        numbers = self._attributes.get(name)
        require(isinstance(numbers, list | tuple), f"dimensions as {name}", numbers)
        assert numbers is not None
        axes = [self._number(number, name, 0, rank - 1) for number in numbers]
        require(len(set(axes)) == len(axes), f"different dimensions as {name}", numbers)
        return axes

    def name(self, name: str, names: Sequence[str]) -> str:
        """Return one of some names."""
        text = self._attributes.get(name)
        require(text in names, f"{name} to be one of {', '.join(names)}", text)
        assert isinstance(text, str)
        return text

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self._attributes.get(name)
        require(type(value) is bool, f"true or false as {name}", value)
        return bool(value)

    def real(self, name: str) -> float:
        """Return a number that single precision holds."""
        number = self._attributes.get(name)
        known = type(number) in (int, float) and abs(number) <= _GREATEST  # pyright: ignore
        require(known, f"a number of single precision as {name}", number)
        return float(number)  # pyright: ignore


if TYPE_CHECKING:
    from celosia.sw.layers.lowering import Lowering
    from celosia.sw.layers.step import Backward, Step

Shape = tuple[int, ...]

#: Returns the attributes of an operator in a file.
Read = Callable[[Node], dict[str, Any]]
#: Returns the shapes of an operator's results in a file, whatever shapes the file records.
Infer = Callable[[Node], Sequence[Shape]]
#: Checks attributes and shapes; returns the shapes of the results.
Shapes = Callable[[HostOperator, Attributes], Sequence[Shape]]
#: Returns the results of an operator on the host. Arrays have one dimension more than the operands,
#: the first one: the samples. Constants have not, and broadcast.
Kernel = Callable[[HostOperator, Sequence[np.ndarray]], Sequence[np.ndarray]]
#: Adds the work of the core for an operator.
Lower = Callable[["Lowering", Operation], None]
#: Adds an operator of a network to the graph of a training step; returns its backward pass.
Gradient = Callable[["Step", Operation], "Backward"]
#: Returns the result for every int8, for an operator that a table of 256 entries computes.
Table = Callable[[Quantization, Quantization, dict[str, Any]], np.ndarray]
#: Returns the name of an option of the core.
Option = Callable[[Graph, Operation], str]
#: Returns the real factors by which an operator multiplies its integers.
Factors = Callable[[Graph, Operation], list[float]]

#: Names of types: of operands, which are all of one of these, and of results.
Types = tuple[tuple[str, ...], tuple[str, ...]]

#: Results of the type of the operands.
SAME: tuple[str, ...] = ()

_QUANTIZED = ("int8", "uint8", "int16")
_WHOLE = ("int32", "int64")
_ANY = (*_QUANTIZED, *_WHOLE, "float32", "bool")

#: Types that have arithmetic without scales.
NUMBERS = (*_WHOLE, "float32")

INT8: Types = (("int8",), ("int8",))
WHOLE: Types = (_WHOLE, _WHOLE)
FLOAT: Types = (("float32",), ("float32",))
ANY: Types = (_ANY, _ANY)


def _nothing(node: Node) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Operator:
    """Everything the project knows about one operator."""

    kind: str  #: Name, as TensorFlow Lite spells it.
    shapes: Shapes  #: Shape rule: checks the attributes, and returns the shape of each result.
    #: Reader of ``.tflite`` files: returns the attributes; none unless given.
    read: Read = _nothing
    #: Returns the shapes of the results in a file; needed where shape rule or reader look at the
    #: shapes that the results have.
    infer: Infer | None = None
    #: Positions of the inputs that are read when it runs; all unless given. The other inputs are
    #: constants that attributes repeat.
    operands: tuple[int, ...] | None = None
    #: Types of operands and of results; no types of results stand for that of the operands.
    types: Types = INT8
    #: Whether operands and results must have the same scale and zero point.
    keeps_scale: bool = False
    #: Whether results hold elements of the operands, unchanged: of any type, with any quantisation
    #: or none, the same on all sides.
    moves: bool = False
    #: Positions of operands that are no such elements: indices, conditions. The shape rule checks
    #: their types.
    aside: tuple[int, ...] = ()
    plain: bool = False  #: Whether integers are numbers without scale.
    #: Whether the kernel of uint8 differs from that of int8: the attribute ``unsigned`` of an
    #: operator on tensors that were uint8.
    unsigned: bool = False
    takes_batch: bool = False  #: Whether it takes the model's batch as a whole.
    kernel: Kernel | None = None  #: Runs it on the host. It may refuse its inputs with Mismatch.
    #: Lowers it to work of the core. Raises CompileError with the reason where it cannot.
    lower: Lower | None = None
    table: Table | None = None  #: Fills its table of 256 entries.
    #: Forward and backward pass in a training step. Raises CompileError if it does not train.
    gradient: Gradient | None = None
    #: Returns the option of ``Config`` without which the host runs an operation; empty for none.
    option: Option | None = None
    #: Attribute that it has where a table can do it; empty where a table always can.
    single: str = ""
    #: Factors; the reference kernel's results are undefined from 2^30 on.
    factors: Factors | None = None
    broadcasts: bool = False  #: Whether operands broadcast, aligned at their last dimensions.
    weighted: bool = False  #: Whether its constants belong to channels and not to samples.
    #: Positions of variable tensors among the inputs. Its last results are their new contents.
    states: tuple[int, ...] = ()
    static: bool = False  #: Whether results follow from the shapes of the operands alone.
    #: Limits for the page of operators: on the core, and on the host otherwise.
    core: str | None = None
    host: str | None = None

    def tabulated(self, operation: Operation) -> bool:
        """Return whether a table computes an operation of this kind."""
        return self.table is not None and (not self.single or self.single in operation.attributes)

    def inputs(self, operation: Operation) -> list[int]:
        """Return the tensors that an operation reads when it runs; -1 is one left out."""
        positions = range(len(operation.inputs)) if self.operands is None else self.operands
        return [
            operation.inputs[position] for position in positions if position < len(operation.inputs)
        ]

    def check(self, operator: HostOperator) -> None:
        """Refuse types, attributes and shapes that no kernel can process.

        Raises Mismatch with the requirement.
        """
        require(bool(operator.sources and operator.results), "inputs and results")
        sources = operator.sources[:1] if self.weighted else operator.sources
        sources = [source for position, source in enumerate(sources) if position not in self.aside]
        require(bool(sources), "other inputs")
        self._check_types(sources[:1], self.types[0])
        alike = (sources[0].dtype,)
        self._check_types(sources, alike)
        self._check_types(operator.results, alike if self.moves else self.types[1] or alike)
        try:
            expected = [tuple(shape) for shape in self.shapes(operator, Attributes(operator))]
        except Mismatch:
            raise
        except (IndexError, ValueError):
            got = f"{len(operator.sources)} and {len(operator.results)}"
            raise Mismatch(f"other numbers of inputs and results, got {got}") from None
        recorded = [result.shape for result in operator.results]
        if expected != recorded:
            shown = (", ".join(map(str, shapes)) for shapes in (expected, recorded))
            raise Mismatch("a result of shape {}, got {}".format(*shown))

    def compute(self, operator: HostOperator, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Return the results on the host, as the kernel does.

        Results outside float32 become infinite or no number, without a warning.
        """
        assert self.kernel
        with np.errstate(all="ignore"):
            return self.kernel(operator, arrays)

    def _check_types(self, operands: Sequence[Operand], types: tuple[str, ...]) -> None:
        for operand in operands:
            got = f"{operand.dtype} {short_name(operand.name)!r}"
            require(operand.dtype in types, " or ".join(types), got)


def mover(kind: str, shapes: Shapes, kernel: Kernel, host: str, **fields: Any) -> Operator:
    """Return the record of an operator whose results hold elements of the operands, of any type."""
    fields = {"types": ANY, "moves": True, **fields}
    return Operator(kind=kind, shapes=shapes, kernel=kernel, host=host, **fields)


def by_type(**kernels: Kernel) -> Kernel:
    """Return the kernel that chooses by the type of the first operand; ``plain`` by default."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        dtype = operator.sources[0].dtype
        return kernels.get(dtype, kernels.get("plain"))(operator, arrays)  # pyright: ignore

    return run


def each_sample(kernel: Kernel) -> Kernel:
    """Return a kernel for several samples from one for arrays of the operands' shapes."""

    def run(operator: HostOperator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        computed = [operand.data is None for operand in operator.sources]
        samples = max((len(a) for a, c in zip(arrays, computed, strict=True) if c), default=1)
        results = [
            kernel(operator, [a[n] if c else a for a, c in zip(arrays, computed, strict=True)])
            for n in range(samples)
        ]
        return [np.stack(rows) for rows in zip(*results, strict=True)]

    return run
