"""A model of pictures on a device, and everything that the page shows of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from celosia import Config, DeviceError, InputError, profile
from celosia.sw.data import DATASETS
from celosia.sw.ir.graph import Graph, short_name
from celosia.sw.ir.parts import Port
from celosia.sw.ir.program import Program
from celosia.sw.runtime.arrays import label, quantized
from celosia.sw.runtime.opening import open_session, read_source
from celosia.sw.runtime.session import Session, Statistics
from celosia.sw.shipped import model_path, shipped
from celosia_examples.digits.maps import FeatureMap, Maps
from celosia_examples.digits.passes import Pass, Recorder
from celosia_examples.digits.picture import SIDE, normalised
from celosia_examples.digits.timeline import timeline

#: Operators that an output passes on its way out of the model without another meaning.
_PASSING = ("DEQUANTIZE", "QUANTIZE", "RESHAPE", "SQUEEZE")
_MOST_CLASSES = 100


@dataclass(frozen=True, eq=False)
class Classification:
    """Everything about one drawing."""

    picture: np.ndarray  #: uint8, shape ``(28, 28)``: the model's input.
    probabilities: np.ndarray  #: float64, by class; they sum to 1.
    maps: list[FeatureMap]  #: Results of layers.
    passes: list[Pass]  #: One pass of the systolic array for each layer that has any.
    statistics: Statistics  #: Cycles of this run, None on a device without clock.


class Classifier:
    """A model of pictures of 28 x 28 on a device.

    - ``model``: name of a shipped model, or a model file.
    - ``device``: name of the device, see ``open_device``.
    - ``pixels``: numbers that the pixels 0 and 255 stand for.
    - ``latency``, ``bandwidth``: of the external memory: of the estimate, and of the device
      ``rtl``.

    Raises InputError if the model does not have one input of 28 x 28 and one output of classes;
    ModelError, CompileError, DeviceError if the model or the device cannot be used.
    """

    def __init__(
        self,
        model: str | Path,
        config: Config,
        device: str = "machine",
        *,
        pixels: tuple[float, float] = (0.0, 1.0),
        latency: int = 32,
        bandwidth: float = 1.0,
    ) -> None:
        path = model_path(model)
        graph = read_source(path)
        if isinstance(graph, Program):
            raise InputError(f"{path}: wanted a model, got a program; give the model's file")
        known = {model.path: name for name, model in shipped().items()}
        self.name = known.get(path, path.name)
        self.dataset = shipped()[self.name].dataset if self.name in shipped() else ""
        self.device = device
        estimate = profile(graph, config=config, latency=latency, bandwidth=bandwidth)
        self.program = estimate.program
        self._require_ends(path)
        self.classes = tuple(map(str, range(self.program.outputs[0].elements)))
        if self.dataset:
            self.classes = DATASETS[self.dataset].classes
        self._is_softmax = _ends_in_softmax(graph)
        self._pixels = pixels
        self.timeline = timeline(estimate)
        self._maps = Maps(graph, estimate)
        self._recorder = Recorder(self.program)
        self._machine = Session(self.program, self._recorder)
        self._session = self._machine
        if device != "machine":
            memory = {"latency": latency, "bandwidth": bandwidth} if device == "rtl" else {}
            self._session = open_session(self.program, device=device, **memory)
        self._lock = Lock()

    def _require_ends(self, path: Path) -> None:
        """Refuse a model with other inputs or outputs than a classifier of pictures has."""
        inputs, outputs = self.program.inputs, self.program.outputs
        shapes = {(SIDE * SIDE,), (SIDE, SIDE), (SIDE, SIDE, 1), (1, SIDE, SIDE)}
        if len(inputs) != 1 or inputs[0].shape not in shapes or self.program.variables:
            raise InputError(f"{path}: wanted one input of {SIDE}x{SIDE}x1, got {_listed(inputs)}")
        if inputs[0].dtype not in ("int8", "uint8", "float32"):
            requirement = f"{label(inputs[0])} of int8, uint8 or float32"
            raise InputError(f"{path}: wanted {requirement}, got {inputs[0].dtype}")
        is_scores = len(outputs) == 1 and outputs[0].dtype in ("int8", "uint8", "float32")
        if not is_scores or not 2 <= outputs[0].elements <= _MOST_CLASSES:
            requirement = f"one output of scores of 2 to {_MOST_CLASSES} classes"
            raise InputError(f"{path}: wanted {requirement}, got {_listed(outputs)}")

    def classify(self, drawing: np.ndarray) -> Classification:
        """Return everything about one drawing.

        ``drawing``: uint8, two axes; 0 is background. Raises InputError if nothing is drawn;
        DeviceError if the device fails, or gives other bytes than the machine model.
        """
        picture = normalised(drawing, self.dataset)
        port = self.program.inputs[0]
        x = quantized(picture.reshape(1, *port.shape), port, pixels=self._pixels)
        with self._lock:
            self._recorder.clear()
            (expected,) = self._machine.run([x])
            self._session.statistics = statistics = Statistics(self.program)
            (y,) = self._session.run([x])
            stored, maps = self._maps.read(x)
            passes = self._recorder.passes
        for name, other in ((self.device, y), ("program that stores feature maps", stored)):
            if not np.array_equal(other, expected):
                differ = int(np.sum(other != expected))
                raise DeviceError(f"{name}: {differ} bytes differ from the machine model")
        return Classification(picture, self._probabilities(y[0]), maps, passes, statistics)

    def _probabilities(self, y: np.ndarray) -> np.ndarray:
        """Return the probabilities that an output stands for."""
        port = self.program.outputs[0]
        scores = y.reshape(-1).astype(np.float64)
        if port.dtype != "float32":
            scores = port.scale * (scores - port.zero_point)
        if not self._is_softmax:
            scores = np.exp(scores - scores.max())
        return scores / scores.sum()

    def close(self) -> None:
        """Release the device."""
        self._session.close()

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that are the same for all drawings, for JSON."""
        config = self.program.config
        return {
            "model": self.name,
            "dataset": self.dataset,
            "classes": self.classes,
            "device": self.device,
            "core": config.name,
            "rows": config.rows,
            "columns": config.columns,
            "weightRows": config.weight_rows,
            "macs": self.program.macs,
            "timeline": self.timeline,
        }


def _listed(ports: tuple[Port, ...]) -> str:
    shown = (f"{short_name(p.name)!r} {p.dtype} {list(p.shape)}" for p in ports[:4])
    return ", ".join(shown) + ", ..." * (len(ports) > 4)


def _ends_in_softmax(graph: Graph) -> bool:
    """Return whether the first output of a model is that of SOFTMAX."""
    makers = {number: operation for operation in graph.operations for number in operation.outputs}
    maker = makers.get(graph.outputs[0])
    while maker and maker.kind in _PASSING:
        maker = makers.get(maker.inputs[0])
    return maker is not None and maker.kind == "SOFTMAX"
