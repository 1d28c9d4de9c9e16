"""Graphs under construction, one operator after the other; branches begin at earlier results."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Quantization, Tensor

__all__ = ["Chain", "want_name", "want_zero_point"]


#: Types whose integers mean something else.
_QUANTIZED = ("int8", "uint8")


class Chain:
    """A graph under construction, one operator after the other.

    Operators read the last result; ``back_to`` makes an earlier one the last. Tensors are named
    ``input``, then for instance ``weights_0``, ``bias_0``, ``output_0``, by the number of the
    operator.

    Parameters
    ----------
    shape : sequence of int
        Of the input.
    scale, zero_point : float, int
        Quantisation of the input.
    dtype : str
        Of the input: int8, uint8 or float32; the last has no quantisation.
    """

    def __init__(
        self, shape: Sequence[int], scale: float, zero_point: int, dtype: str = "int8"
    ) -> None:
        self._tensors: list[Tensor] = []
        self._operations: list[Operation] = []
        self._last = self._activation("input", shape, scale, zero_point, dtype)

    @property
    def last(self) -> Tensor:
        """Result of the last operator, or the input."""
        return self._tensors[self._last]

    @property
    def scale(self) -> float:
        """Scale of the last result."""
        return self.quantization(self._last).scale

    @property
    def zero_point(self) -> int:
        """Zero point of the last result."""
        return self.quantization(self._last).zero_point

    @property
    def number(self) -> int:
        """Number of the last result."""
        return self._last

    @property
    def results(self) -> tuple[int, ...]:
        """Numbers of all results of the last operator."""
        return self._operations[-1].outputs

    def back_to(self, number: int) -> None:
        """Make an earlier result the last one, so that another branch begins there.

        Parameters
        ----------
        number : int
            What ``number`` was then.
        """
        self._last = number

    def find(self, name: str) -> int:
        """Return the number of a result, or of the input, by its name.

        Raises
        ------
        ValueError
            If there is none of that name.
        """
        results = [0, *(number for operation in self._operations for number in operation.outputs)]
        for number in results:
            if self._tensors[number].name == name:
                return number
        last = self._tensors[results[-1]].name
        raise ValueError(f"wanted an earlier result, input to {last}, got {name!r}")

    def tensor(self, number: int) -> Tensor:
        """Return a tensor by its number."""
        return self._tensors[number]

    def quantization(self, number: int) -> Quantization:
        """Return what the integers of a result mean, by its number."""
        quantization = self._tensors[number].quantization
        assert quantization is not None
        return quantization

    def want_image(self) -> None:
        """Refuse a last result that has not (batch, height, width, channels).

        Raises
        ------
        ValueError
            If it has another number of dimensions.
        """
        if len(self.last.shape) != 4:
            raise ValueError(f"wanted an input of 4 dimensions, got shape {self.last.shape}")

    def places(
        self,
        window: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
        padding: str,
    ) -> list[int]:
        """Return how often a window lies along y and x of the last result.

        Raises
        ------
        ValueError
            If there is no place for it.
        """
        extents = self.last.shape[1:3]
        steps = zip(extents, window, stride, dilation, strict=True)
        counts = [window_count(*numbers, padding) for numbers in steps]
        if min(counts) < 1:
            raise ValueError(f"wanted a window inside {extents} pixels, got {tuple(window)}")
        return counts

    def _activation(
        self, name: str, shape: Sequence[int], scale: float, zero_point: int, dtype: str
    ) -> int:
        extents = tuple(int(extent) for extent in shape)
        quantization = _quantization(scale, zero_point) if dtype in _QUANTIZED else None
        self._tensors.append(Tensor(name, extents, np.dtype(dtype), quantization))
        return len(self._tensors) - 1

    def constant(
        self,
        role: str,
        data: np.ndarray,
        scale: float | np.ndarray | None = None,
        zero_point: int = 0,
        axis: int = 0,
    ) -> int:
        """Add a constant of the operator to come; return its number.

        Parameters
        ----------
        role : str
            First part of its name.
        data : numpy.ndarray
            Contents.
        scale : float or float array, optional
            One number, or one for each index of a dimension; None for no quantisation.
        zero_point : int
            Of the quantisation.
        axis : int
            The dimension that has a scale for each index.
        """
        quantization = None if scale is None else _quantization(scale, zero_point, axis)
        name = f"{role}_{len(self._operations)}"
        self._tensors.append(Tensor(name, data.shape, data.dtype, quantization, data))
        return len(self._tensors) - 1

    def operator(
        self,
        kind: str,
        shape: Sequence[int],
        constants: Sequence[int] = (),
        *,
        scale: float | None = None,
        zero_point: int | None = None,
        dtype: str = "int8",
        inputs: Sequence[int] | None = None,
        results: int = 1,
        shapes: Sequence[Sequence[int]] = (),
        **attributes: Any,
    ) -> None:
        """Add an operator that reads the last result, and makes the next one.

        Parameters
        ----------
        kind : str
            Its name, for instance ``CONV_2D``.
        shape : sequence of int
            Of its result.
        constants : sequence of int
            Numbers of further inputs, constants or earlier results.
        dtype : str
            Of its result.
        inputs : sequence of int, optional
            Numbers of all inputs, where the last result is not the first of them.
        results : int
            How many it has, all alike; the first becomes the last result, and the others are named
            as it with ``_1``, ``_2`` and so on behind.
        shapes : sequence of sequences of int
            Of further results, where they are not alike.
        scale, zero_point : float, int
            Quantisation of its result; as that of the last one unless given.
        **attributes
            As of ``celosia.sw.frontend.operators``.
        """
        place = len(self._operations)
        if dtype not in _QUANTIZED:
            scale = zero_point = 0
        scale = self.scale if scale is None else scale
        zero_point = self.zero_point if zero_point is None else zero_point
        extents = [shape, *shapes] if shapes else [shape] * results
        numbers = tuple(
            self._activation(
                f"output_{place}_{number}" if number else f"output_{place}",
                each,
                scale,
                zero_point,
                dtype,
            )
            for number, each in enumerate(extents)
        )
        read = (self._last, *constants) if inputs is None else tuple(inputs)
        self._operations.append(Operation(kind, place, read, numbers, attributes))
        self._last = numbers[0]

    def graph(self) -> Graph:
        """Return the graph, from the input to the results that no operator reads."""
        tensors, operations = tuple(self._tensors), tuple(self._operations)
        read = {number for operation in operations for number in operation.inputs}
        results = (number for operation in operations for number in operation.outputs)
        outputs = tuple(number for number in results if number not in read)
        return Graph("model", tensors, operations, (0,), outputs)


def _quantization(scale: float | np.ndarray, zero_point: int, axis: int = 0) -> Quantization:
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    return Quantization(scales, np.full(scales.size, zero_point, np.int64), axis)


def want_name(role: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that is none of those known.

    Raises
    ------
    ValueError
        If it is not.
    """
    if name not in names:
        raise ValueError(f"{role}: wanted one of {', '.join(names)}, got {name!r}")


def want_zero_point(zero_point: int | None) -> None:
    """Refuse a zero point outside int8; None is good.

    Raises
    ------
    ValueError
        If it is outside.
    """
    if zero_point is not None and not -128 <= zero_point <= 127:
        raise ValueError(f"output_zero_point: wanted -128 to 127, got {zero_point}")


def window_count(extent: int, window: int, stride: int, dilation: int, padding: str) -> int:
    """Return the number of windows along one dimension of an image; below 1 where none fits."""
    if padding == "SAME":
        return -(-extent // stride)
    return (extent - (window - 1) * dilation - 1) // stride + 1


def sliced(
    shape: tuple[int, ...], numbers: Sequence[Sequence[int]], masks: Sequence[int]
) -> dict[str, Any]:
    """Return what a STRIDED_SLICE takes of each dimension.

    Parameters
    ----------
    shape : tuple of int
        Of its input.
    numbers : sequence of sequences of int
        Begin, end and stride as the operator says them, one for each dimension.
    masks : sequence of int
        By dimension: bits of those whose begin counts as left out, whose end does, and that go.

    Returns
    -------
    dict
        ``begin``, ``count`` and ``stride`` for each dimension, and ``dropped`` ones.
    """
    firsts, counts = [], []
    begin, end, stride = numbers
    for axis, extent in enumerate(shape):
        first, last, step = begin[axis], end[axis], stride[axis]
        open_first, open_last, drops = (bool(mask >> axis & 1) for mask in masks)
        if drops:
            last = first + 1 if first != -1 else extent
            open_last = False
        taken = range(extent)[
            slice(None if open_first else first, None if open_last else last, step)
        ]
        firsts.append(taken.start)
        counts.append(len(taken))
    dropped = tuple(axis for axis in range(len(shape)) if masks[2] >> axis & 1)
    return {
        "begin": tuple(firsts),
        "count": tuple(counts),
        "stride": tuple(stride),
        "dropped": dropped,
    }


def transposed_margins(
    extents: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...], padding: str
) -> tuple[int, int]:
    """Return the rows and columns in front of a result that a TRANSPOSE_CONV leaves out.

    Parameters
    ----------
    extents, window, stride : tuple of int
        Rows and columns of the result, of the weights, and from one pixel to the next.
    padding : str
        ``SAME`` or ``VALID``.
    """
    rows, columns = (
        max(0, (window_count(n, taps, step, 1, padding) - 1) * step + taps - n) // 2
        for n, taps, step in zip(extents, window, stride, strict=True)
    )
    return rows, columns
