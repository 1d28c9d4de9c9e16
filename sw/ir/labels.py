"""Names of layers: those of the user's network, taken from the names that converters make."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonprefix

from celosia.sw.ir.graph import Operation, Tensor
from celosia.sw.ir.parts import HostOperator, Layer

#: Longest label.
_MOST = 32

#: Names that converters give the outputs of a network.
_OUTPUT = re.compile(r"((Stateful)?PartitionedCall|Identity|serving_default_)\w*(:\d+)?")
#: Last component of a name: the computation of a layer with weights, as TensorFlow names it.
_PRODUCT = re.compile(r"/(convolution|depthwise|MatMul|Tensordot|conv\w*_transpose|Conv)\w*$")
#: Component of a name of PyTorch: class, and name of the module in the module around it.
_MODULE = re.compile(r"(?:[\w<>]+\.)+([A-Z][A-Za-z0-9]*)(?:_(\w+))?")
#: Classes of PyTorch with weights, and those whose input has channels last in the converted file.
_WEIGHTED_CLASS = re.compile(r"Conv|Linear")
_IMAGE_CLASS = re.compile(r"Conv|BatchNorm2d|\w*Pool2d")
#: Number that Keras appends to a name.
_COUNT = re.compile(r"(?<=[^/_])_\d+$")
#: Shape in the name of a constant that the compiler has reshaped.
_RESHAPED = re.compile(r"/\d+(x\d+)*$")
#: Number after a name that an earlier layer has.
_REPEATED = re.compile(r" \(\d+\)$")

#: Operators with weights, and those that only move bytes.
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
_MOVES = ("RESHAPE", "TRANSPOSE", "PAD")

_LAYOUT = "input to channels last"


def layer_name(tensors: Sequence[Tensor] | Mapping[int, Tensor], operation: Operation) -> str:
    """Return the full name of an operation's layer: that of its result.

    If the converter has named the result as an output of the network, the name of the weights
    follows after a semicolon.
    """
    name = tensors[operation.outputs[0]].name or f"{operation.kind.lower()}_{operation.place}"
    if _OUTPUT.fullmatch(name) and operation.kind in _WEIGHTED:
        weights = tensors[operation.inputs[1]]
        if weights.data is not None and weights.name:
            return f"{name};{_RESHAPED.sub('', weights.name)}"
    return name


def labels(names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Return short names of layers; two are equal only if the full names are.

    - ``names``: full names, in the order of the layers.
    - ``kinds``: operators of the layers, those fused after a ``+``.

    A label is the name of the layer in the user's network. Layers with weights choose first; a name
    that is taken is followed by the computation, and at last by a number.

    Examples
    --------
    >>> labels(["net_1/relu_1/Relu;net_1/edges_1/convolution", "Identity"], ["CONV_2D", "SOFTMAX"])
    ['edges', 'softmax']
    """
    kinds = [kind.partition("+")[0] for kind in kinds]
    choices = [list(_choices(n, k)) for n, k in zip(names, kinds, strict=True)]
    first = next((n for n, kind in enumerate(kinds) if kind != "QUANTIZE"), -1)
    if first >= 0 and _changes_layout(names[first], kinds[first]):
        choices[first] = [_LAYOUT]
    return _distinct(choices, [kind in _WEIGHTED for kind in kinds])


def labelled(
    layers: Sequence[Layer], host: Sequence[HostOperator]
) -> list[tuple[str, Layer | HostOperator]]:
    """Return layers and host operators, each after its label, in the model's order."""
    ordered = sorted((*layers, *host), key=lambda step: step.place)
    names = labels([step.name for step in ordered], [step.kind for step in ordered])
    return list(zip(names, ordered, strict=True))


def _distinct(choices: Sequence[Sequence[str]], before: Sequence[bool]) -> list[str]:
    """Return one of the choices of each layer; no two are equal.

    ``before``: layers that choose before the others. Without a free choice the last is numbered.
    """
    chosen: dict[int, str] = {}
    for level in range(max(map(len, choices), default=0)):
        for way in (True, False):
            left = [n for n, own in enumerate(choices) if n not in chosen and level < len(own)]
            left = [n for n in left if before[n] == way]
            count, taken = Counter(choices[n][level] for n in left), set(chosen.values())
            free = {n: label for n in left if count[label := choices[n][level]] == 1}
            chosen |= {n: label for n, label in free.items() if label not in taken}
    seen, taken = Counter[str](), set(chosen.values())
    for n, (*_, label) in enumerate(choices):
        while n not in chosen:
            seen[label] += 1
            if (numbered := f"{label} #{seen[label]}") not in taken:
                chosen[n] = numbered
    return [chosen[n] for n in range(len(choices))]


def _choices(name: str, kind: str) -> Iterator[str]:
    """Yield labels of a layer, the best first; the last one may be numbered."""
    repeated = _REPEATED.search(name)
    end = repeated[0] if repeated else ""
    parts = [part for part in name.removesuffix(end).split(";") if part and not part.isdigit()]
    parts = [part for part in parts if not _OUTPUT.fullmatch(part)]
    if not parts:
        yield kind.lower() + end
    elif all(map(_MODULE.fullmatch, parts[0].split("/"))):
        yield from (_cut(path) + end for path in _of_torch(parts, kind))
    else:
        yield from (_cut(path) + end for path in _of_paths(parts, kind in _WEIGHTED))


def _of_torch(parts: Sequence[str], kind: str) -> Iterator[str]:
    """Yield labels of a layer whose names are paths of modules of PyTorch."""
    paths = [modules for part in parts if (modules := _modules(part))]
    weighted = [path for path in paths if _WEIGHTED_CLASS.match(path[-1][0])]
    paths = weighted if weighted and kind in _WEIGHTED else paths
    if not paths or len(paths[0]) < 2:
        yield kind.lower()
        return
    # A module in a Sequential has a number.
    label = "/".join(f"{c}_{name}" if name.isdigit() else name for c, name in paths[0][1:])
    if kind not in _MOVES:
        yield label
    if kind not in _WEIGHTED:
        yield f"{label} {kind.lower()}"


def _modules(part: str) -> list[tuple[str, str]]:
    """Return class and name of each module of a path; the whole network has no name."""
    matches = map(_MODULE.fullmatch, part.split("/"))
    return [(match[1], match[2] or "") for match in matches if match]


def _changes_layout(name: str, kind: str) -> bool:
    """Return True if the first layer brings PyTorch's layout to that of the file."""
    modules = _modules(name.partition(";")[0])
    moves = kind in ("RESHAPE", "TRANSPOSE")
    return bool(moves and modules and _IMAGE_CLASS.match(modules[-1][0]))


def _of_paths(parts: Sequence[str], weighted: bool) -> Iterator[str]:
    """Yield labels of a layer whose names are paths, such as those of TensorFlow."""
    products = [part for part in parts if _PRODUCT.search(part)]
    if weighted and products:
        path = products[0]
        short = path.rpartition("/")[0]
    else:
        path = parts[0]
        common = commonprefix([*parts]).rpartition("/")[0] if len(parts) > 1 else ""
        short = common if "/" in common else path.rpartition("/")[0]
        # The last component is a computation, or the layer itself: that is not known.
        last = path.rpartition("/")[2]
        short = path if "/" not in short or (weighted and last.islower()) else short
    label = _plain(short)
    longer = label if weighted or short == path else f"{label}/{path.rpartition('/')[2]}"
    yield from (label, longer, short.partition("/")[2] or short, longer)


def _plain(path: str) -> str:
    """Return the path of a layer without the name of the network, and without Keras's numbers."""
    network, _, inner = path.partition("/")
    if not inner:
        return path
    if not _COUNT.search(network):
        return inner
    return "/".join(_COUNT.sub("", component) for component in inner.split("/"))


def _cut(name: str) -> str:
    """Return the end of a name, of at most ``_MOST`` characters."""
    while len(name) > _MOST and "/" in name:
        name = name.partition("/")[2]
    return name if len(name) <= _MOST else "..." + name[3 - _MOST :]
