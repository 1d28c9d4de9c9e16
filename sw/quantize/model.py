"""Float networks, the input of all quantisers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from celosia.sw.ir.parts import Port

#: Arrays by the network's names of its inputs, each with a batch axis of extent 1.
Sample = Mapping[str, np.ndarray]

#: Message for a network that has nothing to quantise.
QUANTISED = "it is quantised: celosia run and celosia report take it as given"


class QuantizeError(ValueError):
    """A network cannot be quantised; the message is one line."""


@dataclass(frozen=True)
class FloatModel:
    """A float network in one file, and its quantiser."""

    #: Inputs: names, shapes of one sample, and types. Scale and zero point are unused.
    ports: list[Port]
    content: bytes  #: The network in float, as a ``.tflite`` or ``.onnx`` file.
    #: Takes samples that ranges are measured on, and goes through them once or several times;
    #: returns the int8 file of the same kind.
    quantize: Callable[[Iterable[Sample]], bytes]


def outputs_of(
    call: Callable[[Sample], Sequence[np.ndarray]], arrays: Sample, steps: Iterable[int]
) -> np.ndarray:
    """Return the only output of a network for samples, shape ``(N, elements)``.

    - ``call``: runs it on one sample.
    - ``arrays``: inputs as in ``FloatModel.ports``, with the samples first.
    - ``steps``: numbers of the samples.

    Raises QuantizeError if there are several outputs.
    """
    results = []
    for step in steps:
        outputs = call({name: array[step : step + 1] for name, array in arrays.items()})
        if len(outputs) != 1:
            raise QuantizeError(f"wanted one output to compare with labels, got {len(outputs)}")
        results.append(outputs[0].reshape(-1))
    return np.array(results)


def port(name: str, shape: Iterable[int], dtype: str, remedy: str = "") -> Port:
    """Return an input of a float network.

    - ``name``: as the network names it.
    - ``shape``: with the batch first; an extent that is not known is below 1.
    - ``dtype``: type of its numbers.
    - ``remedy``: another one than an export for an extent that is not known.

    Raises QuantizeError if the batch is fixed to more than one, or another extent is not known.
    """
    first, *sample = (*shape, 0)[:1] + tuple(shape)[1:]
    requirement = f"input {name!r}: wanted shape [1, ...] or a free first axis"
    if first > 1:
        raise QuantizeError(f"{requirement}, got {list(shape)}; export it again with a batch of 1")
    if any(extent < 1 for extent in sample):
        raise QuantizeError(
            f"{requirement} alone, got {list(shape)}; export it with fixed extents{remedy}"
        )
    return Port(name, tuple(sample), 1, 0.0, 0, -1, dtype=dtype)
