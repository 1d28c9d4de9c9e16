"""Archives of ``torch.export`` without what could run code when they are loaded.

``torch.export.load`` unpickles, evaluates expressions and takes functions by their names. So the
archive is read here first, against a list of what a network needs, and written again from that.
"""

import ast
import io
import json
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from celosia.sw.files import MOST_BYTES, read_file
from celosia.sw.quantize.model import QuantizeError

#: How a program is made that can be read.
EXPORT = 'torch.export.save(torch.export.export(net.eval(), (example,)), "net.pt2")'

#: Names in a pickle that stand for tensors.
_GLOBALS = re.compile(
    r"torch\._utils _rebuild_(tensor|tensor_v2|parameter)|torch \w+Storage|collections OrderedDict"
    r"|torch (Size|device|b?float\w*|half|double|u?int\w*|long|short|bool)"
)
#: Instructions of a pickle that take a name from elsewhere than their own argument.
_UNNAMED = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}

#: Functions of a graph; others than of these libraries have effects outside.
_FUNCTIONS = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)(\.(?!__)\w+)+|_operator\.\w+|math\.\w+|torch\.sym_\w+"
)
#: Names of tensors, layers, devices and versions.
_PLAIN = re.compile(r"[\w.+:-]*")
_NODES = {"NoneType", "builtins.dict", "builtins.list", "builtins.tuple", "collections.OrderedDict"}

_EXTRA = re.compile(r"([^/]+/)?extra(_files)?/")

#: Syntax of expressions of sizes, and the attributes of tensors in them.
_SYNTAX = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword),
    *(ast.Name, ast.Subscript, ast.Tuple, ast.Load, ast.operator, ast.unaryop, ast.boolop),
    ast.cmpop,
)
_SIZES = ("dim", "ndim", "numel", "shape", "size", "storage_offset", "stride")
_CALLED = re.compile(r"[A-Z]\w*|min|max|floor|ceiling")


def checked(path: Path) -> bytes:
    """Return an archive with the same network, in which nothing runs when it is loaded.

    ``path``: of a ``.pt2`` file. Raises QuantizeError if it is no program of ``torch.export``, or
    has anything but tensors and a graph of PyTorch's own functions.
    """
    content = read_file(path)
    members = dict(_members(content))
    names = {name.partition("/")[2]: name for name in members} | {name: name for name in members}
    graphs = [name for name in names if re.fullmatch(r"models/[^/]+\.json", name)]
    if not graphs and "serialized_exported_program.json" not in names:
        kind = "TorchScript" if "constants.pkl" in names else "weights"
        raise QuantizeError(f"wanted a program of torch.export, got {kind}; {EXPORT} makes one")
    # Files of the user's own are not needed.
    needed = {name: member for name, member in members.items() if not _EXTRA.match(name)}
    return _archive({name: _member(name, member) for name, member in needed.items()})


def _members(content: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise QuantizeError(f"wanted at most {MOST_BYTES >> 20} MiB in it")
            for entry in entries:
                yield entry.filename, archive.read(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError):
        raise QuantizeError("wanted an archive of torch.export, it is none or damaged") from None


def _archive(members: dict[str, bytes]) -> bytes:
    # Written anew: two readers may see different members in one archive.
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def _member(name: str, content: bytes) -> bytes:
    """Return a member of the archive that was checked."""
    if "aotinductor/" in name or re.search(r"serialized_(?!exported_program)\w*\.json", name):
        raise _refusal(f"compiled code or objects ({name})")
    if name.endswith(".json") or "models/" in name:
        try:
            _check_tree("", json.loads(content))
        except QuantizeError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError):
            raise QuantizeError(f"{name}: wanted a graph, it is damaged") from None
    if not content or not name.endswith(".pt"):
        return content
    inner = dict(_members(content))
    if any(re.search(r"(^|/)(code/|constants\.pkl$)", path) for path in inner):
        raise _refusal(f"TorchScript ({name})")
    for pickle in (path for path in inner if path.endswith(".pkl")):
        _check_pickle(inner[pickle])
    return _archive(inner)


def _check_pickle(content: bytes) -> None:
    """Refuse a pickle of anything but tensors."""
    try:
        steps = list(pickletools.genops(content))
    except Exception:
        # A damaged pickle ends in exceptions of many kinds.
        raise QuantizeError("wanted tensors, the archive is damaged") from None
    for step, argument, _ in steps:
        if step.name in _UNNAMED or (
            step.name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument))
        ):
            raise _refusal(f"Python objects ({argument or step.name})")


def _check_tree(key: str, tree: Any) -> None:
    """Refuse the part of a graph below a key if it has text that could be code."""
    if isinstance(tree, dict):
        if tree.get("use_pickle"):
            raise _refusal(f"Python objects ({tree.get('path_name')})")
        for name, branch in tree.items():
            _check_text("", name)
            # Texts of layers and of lines in the program that made it; they are shown alone.
            if key != "metadata" or not isinstance(branch, str):
                _check_tree(name, branch)
    elif isinstance(tree, list):
        for branch in tree:
            _check_tree(key, branch)
    elif isinstance(tree, str):
        _check_text(key, tree)


def _check_text(key: str, text: str) -> None:
    if key == "as_string":
        return
    if key in ("target", "as_operator"):
        is_valid = _FUNCTIONS.fullmatch(text) is not None
    elif key in ("expr_str", "guards_code"):
        is_valid = _is_size(text)
    elif key in ("in_spec", "out_spec"):
        is_valid = not text or _is_nest(json.loads(text)[1])
    else:
        is_valid = _PLAIN.fullmatch(text) is not None
    if not is_valid:
        raise _refusal(f"{key or 'name'} {text!r}")


def _is_nest(spec: Any) -> bool:
    """Return whether a description of arguments has tuples, lists and dictionaries alone."""
    context = json.loads(spec["context"] or "null")
    plain = context is None or all(isinstance(item, str | int) for item in context)
    known = spec["type"] is None or spec["type"] in _NODES
    return plain and known and all(map(_is_nest, spec["children_spec"]))


def _is_size(text: str) -> bool:
    """Return whether an expression is one of sizes of tensors."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:
        return False
    return all(_is_part(node) for node in nodes)


def _is_part(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str | bytes) or bool(
            re.fullmatch(r"\w*", str(node.value))
        )
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZES
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
        return isinstance(node.func, ast.Name) and bool(_CALLED.fullmatch(node.func.id))
    return isinstance(node, _SYNTAX)


def _refusal(what: str) -> QuantizeError:
    text = f"wanted tensors and PyTorch's own functions alone, got {what}"
    return QuantizeError(f"{text}; to load this could run code")
