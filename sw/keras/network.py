"""Networks of Keras models, and their weights back in the models."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from celosia.sw.ir.graph import Graph, Operation, Tensor
from celosia.sw.runtime.arrays import InputError
from celosia.sw.training.real import without_pads

#: Layers that change nothing once a model is trained, and their losses.
_LEFT_OUT = ("ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout")
_LEFT_OUT += ("GaussianNoise", "Identity", "SpatialDropout2D")

#: Activations by the names of Keras.
_ACTIVATIONS = {"linear": "NONE", "relu": "RELU", "relu6": "RELU6"}


def numbers(variable: Any) -> np.ndarray:
    """Return the contents of a variable of Keras."""
    keras: Any = import_module("keras")
    return np.asarray(keras.ops.convert_to_numpy(variable), np.float64)


@dataclass
class Weighted:
    """Layer with weights, and the normalisation after it, which counts as part of it."""

    layer: Any
    normalization: Any = None

    def read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return kernel and bias; those of the normalisation are in them."""
        kernel, *more = (numbers(variable) for variable in self.layer.weights)
        bias = more[0] if more else None
        if self.normalization is None:
            return kernel, bias
        parts = {v.path.split("/")[-1]: numbers(v) for v in self._variables()}
        factor = parts.get("gamma", 1.0) / np.sqrt(parts["moving_variance"] + self._epsilon)
        bias = (0.0 if bias is None else bias) - parts["moving_mean"]
        shape = (*kernel.shape[2:],) if self._is_depthwise else (-1,)
        return kernel * np.reshape(factor, shape), bias * factor + parts.get("beta", 0.0)

    def write(self, kernel: np.ndarray, bias: np.ndarray | None) -> None:
        """Assign kernel and bias; the normalisation becomes a bias alone."""
        arrays = [kernel.reshape(self.layer.weights[0].shape)]
        if self.layer.use_bias and bias is not None:
            arrays.append(bias if self.normalization is None else np.zeros(bias.size))
        self.layer.set_weights(arrays)
        values = {"gamma": np.sqrt(1 + self._epsilon), "beta": bias, "moving_mean": 0.0}
        for variable in self._variables():
            name = variable.path.split("/")[-1]
            variable.assign(np.broadcast_to(values.get(name, 1.0), variable.shape))

    def _variables(self) -> list[Any]:
        return [] if self.normalization is None else list(self.normalization.weights)

    @property
    def _epsilon(self) -> float:
        return 0.0 if self.normalization is None else self.normalization.epsilon

    @property
    def _is_depthwise(self) -> bool:
        return type(self.layer).__name__ == "DepthwiseConv2D"


@dataclass
class KerasNetwork:
    """Network of a model.

    - ``weighted``: layers by the name of their matrix in a step.
    - ``normalized``: names of normalisations, by the values before them, which are no longer there.
    """

    tensors: list[Tensor] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    weighted: dict[str, Weighted] = field(default_factory=dict)
    normalized: dict[int, str] = field(default_factory=dict)
    graph: Graph | None = None

    def tensor(self, shape: tuple[int, ...], data: np.ndarray | None = None, name: str = "") -> int:
        """Add a tensor; return its number."""
        data = None if data is None else data.astype(np.float32)
        self.tensors.append(Tensor(name, shape, np.dtype(np.float32), None, data))
        return len(self.tensors) - 1

    def add(self, kind: str, inputs: list[int], shape: tuple[int, ...], **fields: Any) -> int:
        """Add an operation; return its result."""
        result, place = self.tensor(shape, name=kind.lower()), len(self.operations)
        self.operations.append(Operation(kind, place, tuple(inputs), (result,), fields))
        return result


def read(model: Any) -> KerasNetwork:
    """Return the network of a ``keras.Model``.

    Raises InputError if it has not one input and one output of fixed shapes, or layers that do not
    train; the message names all of them.
    """
    require_ends(model)
    network, refusals = KerasNetwork(), list[str]()
    shape = (1, *model.inputs[0].shape[1:])
    if None in shape:
        raise InputError(f"model {model.name}: wanted a fixed shape, got {model.inputs[0].shape}")
    source = network.tensor(shape, name=model.inputs[0]._keras_history[0].name)
    last = _add_model(network, model, source, refusals)
    sources = {n for operation in network.operations for n in operation.inputs}
    for number in network.normalized.keys() & sources:
        refusals.append(f"{network.normalized[number]}: wanted an input that no other layer has")
    if refusals:
        listing = "; ".join(refusals)
        raise InputError(f"model {model.name}: wanted layers that train, got {listing}")
    tensors = tuple(network.tensors)
    operations = tuple(without_pads(tensors, network.operations, (last,)))
    network.graph = Graph(model.name, tensors, operations, (source,), (last,))
    return network


def _add_model(network: KerasNetwork, model: Any, source: int, refusals: list[str]) -> int:
    """Add the layers of a model, and those of models in it; return its result.

    ``refusals``: gets a line for each layer that does not train.
    """
    values: dict[int, int] = {}
    for layer, sources, target in _calls(model):
        shape, kind = (1, *target.shape[1:]), type(layer).__name__
        if None in shape:
            raise InputError(f"model {model.name}: wanted a fixed shape, got {target.shape}")
        inputs = [values[id(number)] for number in sources]
        try:
            if kind == "InputLayer":
                result = source
            elif getattr(layer, "inputs", None):
                require_ends(layer)
                result = _add_model(network, layer, inputs[0], refusals)
            else:
                result = _add(network, layer, kind, inputs, shape)
        except InputError as error:
            refusals.append(f"{layer.name} ({kind}): {error}")
            result = network.tensor(shape)
        values[id(target)] = result
    return values[id(model.outputs[0])]


def require_ends(model: Any) -> None:
    """Raise InputError unless a model has one input and one output."""
    ends = [getattr(model, name, None) or [] for name in ("inputs", "outputs")]
    if not all(ends):
        kinds = "a Sequential or functional model"
        raise InputError(f"model {model.name}: wanted {kinds}, got {type(model).__name__}")
    got = " and ".join(str(len(tensors)) for tensors in ends)
    if got != "1 and 1":
        raise InputError(f"model {model.name}: wanted one input and one output, got {got}")


def last_layers(network: KerasNetwork, name: str) -> int | None:
    """Return the number of layers that train, counted from the end; None if all of them do.

    Raises InputError if a layer that trains is before one whose ``trainable`` is False, or if one
    with weights is called twice.
    """
    layers = [weighted.layer for weighted in network.weighted.values()]
    shared = sorted({layer.name for layer in layers if layers.count(layer) > 1})
    if shared:
        requirement = "wanted layers with weights that are called once"
        raise InputError(f"model {name}: {requirement}, got {', '.join(shared)}")
    flags = [bool(weighted.layer.trainable) for weighted in network.weighted.values()]
    count = sum(flags)
    if flags and (not count or not all(flags[-count:])):
        frozen = [w.layer.name for w in network.weighted.values() if not w.layer.trainable]
        requirement = "wanted layers that do not train before all others"
        raise InputError(
            f"model {name}: {requirement}, got {', '.join(frozen)} with trainable=False"
        )
    return count if count < len(flags) else None


def _calls(model: Any) -> list[tuple[Any, list[Any], Any]]:
    """Return layer, inputs and result of each call that a model makes, in order."""
    calls: list[tuple[Any, list[Any], Any]] = []
    known: set[int] = set()

    def visit(target: Any) -> None:
        if id(target) in known:
            return
        known.add(id(target))
        layer, index, _ = target._keras_history
        sources = list(layer._inbound_nodes[index].input_tensors)
        for source in sources:
            visit(source)
        calls.append((layer, sources, target))

    visit(model.outputs[0])
    return calls


def _require(holds: bool, requirement: str) -> None:
    if not holds:
        raise InputError(f"wanted {requirement}")


def _activated(network: KerasNetwork, name: str, number: int) -> int:
    """Return a value with an activation, which is an operation."""
    shape = network.tensors[number].shape
    if name == "softmax":
        return network.add("SOFTMAX", [number], shape, beta=1.0)
    if name == "sigmoid":
        return network.add("LOGISTIC", [number], shape)
    _require(name in _ACTIVATIONS, f"relu, relu6, softmax, sigmoid or no activation, got {name}")
    return number if name == "linear" else network.add(_ACTIVATIONS[name], [number], shape)


def _add(
    network: KerasNetwork, layer: Any, kind: str, inputs: list[int], shape: tuple[int, ...]
) -> int:
    """Add a layer; return its result."""
    match kind:
        case "Dense" | "Conv2D" | "DepthwiseConv2D":
            return _weighted(network, layer, kind, inputs, shape)
        case "BatchNormalization":
            return _normalized(network, layer, inputs[0])
        case "MaxPooling2D" | "AveragePooling2D":
            fields = {"window": tuple(layer.pool_size), "stride": tuple(layer.strides)}
            fields |= {"padding": layer.padding.upper(), "activation": "NONE"}
            name = "MAX_POOL_2D" if kind[0] == "M" else "AVERAGE_POOL_2D"
            return network.add(name, inputs, shape, **fields)
        case "GlobalMaxPooling2D":
            _, *window, channels = network.tensors[inputs[0]].shape
            fields = {"window": tuple(window), "stride": tuple(window), "padding": "VALID"}
            pooled = network.add(
                "MAX_POOL_2D", inputs, (1, 1, 1, channels), activation="NONE", **fields
            )
            return network.add("RESHAPE", [pooled], shape)
        case "GlobalAveragePooling2D":
            return network.add("MEAN", inputs, shape, axes=(1, 2), keep_dims=layer.keepdims)
        case "ZeroPadding2D":
            (top, bottom), (left, right) = layer.padding
            margins = {"before": (0, top, left, 0), "after": (0, bottom, right, 0)}
            return network.add("PAD", inputs, shape, value=0.0, **margins)
        case "Flatten" | "Reshape":
            return network.add("RESHAPE", inputs, shape)
        case _ if kind in _LEFT_OUT:
            return inputs[0]
        case "Activation":
            return _activated(network, layer.activation.__name__, inputs[0])
        case "Softmax":
            return _activated(network, "softmax", inputs[0])
        case "ReLU":
            plain = not layer.negative_slope and not layer.threshold
            _require(plain and layer.max_value in (None, 6), "a ReLU or ReLU6")
            return _activated(network, "relu6" if layer.max_value else "relu", inputs[0])
        case "Add":
            _require(len(inputs) == 2, "two inputs")
            return network.add("ADD", inputs, shape, activation="NONE")
        case "Concatenate":
            axis = layer.axis % len(shape)
            return network.add("CONCATENATION", inputs, shape, axis=axis, activation="NONE")
        case _:
            raise InputError("does not train")


def _weighted(
    network: KerasNetwork, layer: Any, kind: str, inputs: list[int], shape: tuple[int, ...]
) -> int:
    weighted, fields = Weighted(layer), {"activation": "NONE"}
    kernel, bias = weighted.read()
    name = {"Dense": "FULLY_CONNECTED", "Conv2D": "CONV_2D"}.get(kind, "DEPTHWISE_CONV_2D")
    if kind == "Dense":
        _require(len(shape) == 2, "one row of values for each sample")
    else:
        _require(layer.data_format == "channels_last", "channels_last")
        fields |= {"stride": tuple(layer.strides), "padding": layer.padding.upper()}
        fields["dilation"] = tuple(layer.dilation_rate)
    if kind == "DepthwiseConv2D":
        fields["depth_multiplier"] = layer.depth_multiplier
    data = _filters(kind, kernel)
    inputs = [*inputs, network.tensor(data.shape, data)]
    if bias is not None:
        inputs.append(network.tensor(bias.shape, bias))
    result = network.add(name, inputs, shape, **fields)
    place = network.operations[-1].place
    network.weighted[f"{name.lower()}_{place}"] = weighted
    return _activated(network, layer.activation.__name__, result)


def _filters(kind: str, kernel: np.ndarray) -> np.ndarray:
    """Return a kernel of Keras as the operator has it."""
    if kind == "Dense":
        return kernel.T
    if kind == "Conv2D":
        return kernel.transpose(3, 0, 1, 2)
    return kernel.reshape(1, *kernel.shape[:2], -1)


def _normalized(network: KerasNetwork, layer: Any, source: int) -> int:
    """Make a normalisation part of the layer with weights before it."""
    before = network.operations[-1] if network.operations else None
    name = f"{before.kind.lower()}_{before.place}" if before else ""
    follows = before is not None and before.outputs == (source,) and name in network.weighted
    _require(
        follows and network.weighted[name].normalization is None,
        "one that follows a layer with weights and no activation",
    )
    weighted, kind = network.weighted[name], type(network.weighted[name].layer).__name__
    weighted.normalization = layer
    kernel, bias = weighted.read()
    assert before is not None and bias is not None
    data = _filters(kind, kernel)
    inputs = (before.inputs[0], network.tensor(data.shape, data), network.tensor(bias.shape, bias))
    network.normalized[source] = f"{layer.name} (BatchNormalization)"
    result = network.tensor(network.tensors[source].shape, name=network.tensors[source].name)
    network.operations[-1] = replace(before, inputs=inputs, outputs=(result,))
    return result


def write(network: KerasNetwork, matrices: Mapping[str, np.ndarray]) -> None:
    """Give the layers of a network other weights: real numbers by the names of a step."""
    for name, weighted in network.weighted.items():
        if name in matrices:
            bias = matrices.get(f"{name}/bias")
            weighted.write(matrices[name], None if bias is None else bias.reshape(-1))
