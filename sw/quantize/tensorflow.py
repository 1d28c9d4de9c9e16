"""Keras models and SavedModels, quantised by TensorFlow's converter."""

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from celosia.sw.ir.parts import Port
from celosia.sw.quantize.litert import ports_of
from celosia.sw.quantize.model import FloatModel, QuantizeError, Sample, port
from celosia.sw.quantize.symmetric import symmetric

#: An operator that the converter has none for, with its operands, in its message.
_MISSING = re.compile(r"\ttf\.(\w+)\((.*)\) -> ")

#: Names that TensorFlow takes; Keras takes others.
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")

#: Parts of Keras' messages about functions and classes that are not in a file.
_CODE = ("Could not locate", "`Lambda` layer")


def open_keras(path: Path) -> FloatModel:
    """Return the network of a ``.keras`` or ``.h5`` file."""
    keras: Any = import_module("keras")
    try:
        model = keras.models.load_model(path, compile=False)
    except Exception as error:
        if any(part in text for text in _messages(error) for part in _CODE):
            raise QuantizeError(
                "it has layers or functions whose code is not in the file: in the program that "
                'builds them call model.export("folder"), then quantise folder'
            ) from None
        version = _version(path)
        if not version.startswith("2."):
            raise
        # Its own message has the whole configuration of the network.
        raise QuantizeError(
            f"saved by Keras {version}, which Keras {keras.__version__} does not read; the package "
            'tf-keras does: tf_keras.models.load_model(...).export("folder"), then quantise folder'
        ) from None
    return of_keras(model)


def _messages(error: BaseException | None) -> Iterator[str]:
    """Yield the message of an error, and those of its causes."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__


def _version(path: Path) -> str:
    """Return the version of Keras that saved a file; empty if it has none."""
    with suppress(Exception):
        # Damaged files end in exceptions of many kinds.
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive, archive.open("metadata.json") as file:
                return str(json.loads(file.read(1 << 16))["keras_version"])
        with import_module("h5py").File(path, "r") as file:
            version = file.attrs["keras_version"]
            return version.decode() if isinstance(version, bytes) else str(version)
    return ""


def of_keras(model: Any, variables: bool = False) -> FloatModel:
    """Return the network of a ``keras.Model``.

    Parameters
    ----------
    model : keras.Model
        The network.
    variables : bool
        Quantise the variables of the network, too; else they are float32.

    Raises
    ------
    QuantizeError
        If an input has no fixed shape, a name is not one of TensorFlow's, or its converter refuses
        the network.
    """
    for layer in getattr(model, "layers", ()):
        if not _NAME.fullmatch(layer.name):
            requirement = "wanted a name of letters, digits and . _ -, as TensorFlow's names are"
            raise QuantizeError(f"layer {layer.name!r}: {requirement}")
    # The conversion takes more than half of the time: inputs are checked first.
    for part in getattr(model, "inputs", ()):
        port(part.name, [extent or -1 for extent in part.shape], str(part.dtype))

    def converter(tf: Any) -> Any:
        keras_converter = tf.lite.TFLiteConverter.from_keras_model(model)
        keras_converter._experimental_variable_quantization = variables
        return keras_converter

    return _opened(converter)


def open_saved(path: Path) -> FloatModel:
    """Return the network of a folder with a SavedModel."""
    return _opened(lambda tf: tf.lite.TFLiteConverter.from_saved_model(str(path)))


def _opened(converter: Callable[[Any], Any]) -> FloatModel:
    tf = import_module("tensorflow")
    content = _converted(converter(tf))
    ports = ports_of(content)
    return FloatModel(ports, content, lambda samples: _to_int8(converter(tf), ports, samples))


def _to_int8(converter: Any, ports: Sequence[Port], samples: Iterable[Sample]) -> bytes:
    """Return the int8 file of a converter's network; ends are int8, words stay int32."""
    tf: Any = import_module("tensorflow")

    def representative() -> Iterator[dict[str, np.ndarray]]:
        return map(dict, samples)

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = representative
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    if all(port.dtype == "float32" for port in ports):
        converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    return symmetric(_converted(converter))


def _converted(converter: Any) -> bytes:
    try:
        return converter.convert()
    except Exception as error:
        # MLIR's errors are pages long.
        if "tensor list ops" in str(error):
            reason = "recurrent layers want unroll=True"
        elif missing := _MISSING.findall(str(error)):
            kinds = (f"{name} of float16" if "f16" in ends else name for name, ends in missing)
            reason = f"TensorFlow Lite has no {', '.join(dict.fromkeys(kinds))}"
        else:
            raise
        raise QuantizeError(f"TensorFlow's converter refuses it: {reason}") from None
