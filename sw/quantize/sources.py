"""Formats of float networks: one record each."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from celosia.hw.environment.extras import install_command
from celosia.sw.quantize.model import FloatModel, QuantizeError
from celosia.sw.quantize.pt2 import EXPORT


@dataclass(frozen=True, kw_only=True)
class FloatSource:
    """A format of float networks."""

    kind: str  #: Name of the format in messages.
    endings: tuple[str, ...]  #: Endings of its files; none of a folder.
    extra: str  #: Extra of the package ``celosia`` that brings its tools.
    modules: tuple[str, ...]  #: Modules of those tools.
    opener: str  #: Module of this package and function in it that opens a file.
    result: str = ".tflite"  #: Ending of the quantised file.

    @property
    def missing(self) -> list[str]:
        """Modules that are not installed."""
        return [name for name in self.modules if find_spec(name) is None]

    def open(self, path: Path, *options: Any) -> FloatModel:
        """Return the network of a file; ``options`` are those of its opener."""
        module, function = self.opener.split(".")
        return getattr(import_module(f"celosia.sw.quantize.{module}"), function)(path, *options)


#: Endings of PyTorch's other files: weights, and TorchScript.
_WEIGHTS = (".pt", ".pth", ".ckpt", ".torchscript")

_LITERT = ("ai_edge_litert", "ai_edge_quantizer")

#: The formats; the folder of a SavedModel has no ending.
SOURCES = (
    FloatSource(
        kind="Keras model",
        endings=(".keras", ".h5", ".hdf5"),
        extra="keras",
        modules=("ai_edge_litert", "keras", "tensorflow"),
        opener="tensorflow.open_keras",
    ),
    FloatSource(
        kind="TensorFlow SavedModel",
        endings=(),
        extra="keras",
        modules=("ai_edge_litert", "tensorflow"),
        opener="tensorflow.open_saved",
    ),
    FloatSource(
        kind="float .tflite file",
        endings=(".tflite",),
        extra="litert",
        modules=_LITERT,
        opener="litert.open_model",
    ),
    FloatSource(
        kind="float .onnx file",
        endings=(".onnx",),
        extra="onnx",
        modules=("onnx", "onnxruntime"),
        opener="onnx.open_model",
        result=".onnx",
    ),
    FloatSource(
        kind="program of torch.export",
        endings=(".pt2",),
        extra="torch",
        modules=(*_LITERT, "litert_torch", "torch"),
        opener="torch.open_model",
    ),
)


def source_of(path: Path) -> FloatSource:
    """Return the format of a file, by its name.

    Raises QuantizeError if there is no such file, or its format is unknown.
    """
    if not path.exists():
        raise QuantizeError(f"{path}: no such file")
    ending = path.suffix.lower()
    for source in SOURCES:
        if path.is_dir() and not source.endings and (path / "saved_model.pb").is_file():
            return source
        if path.is_file() and ending in source.endings:
            return source
    if ending in _WEIGHTS:
        requirement = "wanted a program of torch.export, got another file of PyTorch"
        raise QuantizeError(f"{path}: {requirement}; {EXPORT} makes one")
    endings = ", ".join(ending for source in SOURCES for ending in source.endings)
    raise QuantizeError(f"{path}: wanted a folder with a saved_model.pb, or one of {endings}")


def require_tools(path: Path, source: FloatSource) -> None:
    """Refuse a file whose tools are not installed.

    Raises ModuleNotFoundError naming them, and the command that installs them.
    """
    if source.missing:
        requirement = f"{path}: a {source.kind} wants {', '.join(source.missing)}"
        raise ModuleNotFoundError(f"{requirement}: {install_command(source.extra)}")
