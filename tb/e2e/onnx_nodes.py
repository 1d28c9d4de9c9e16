"""Node tests of ``onnx.backend.test`` of all operators that are read, and their table.

``python tb/e2e/onnx_nodes.py`` prints the table; ``--write`` puts it into the reference page,
``--refused`` prints each test that is refused and the reason.
"""

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import onnx
import onnxruntime

from celosia.onnx import Backend
from celosia.sw.frontend.onnx.file.nodes import LINEAR
from celosia.sw.frontend.onnx.functions import FUNCTIONS
from celosia.sw.frontend.onnx.model import READERS
from celosia.sw.frontend.onnx.readers.composites import FLOATS

#: Lines of the page before and after the table.
MARKS = "<!-- node tests -->", "<!-- end of node tests -->"

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/onnx.md"

#: Operators that are read.
SUPPORTED = {*READERS, *FLOATS, *FUNCTIONS, *LINEAR, "DequantizeLinear", "QuantizeLinear"}


#: Operators whose results are constants when the file is read.
_FOLDED = {"Constant", "Shape"}

#: Name of the row of tests with several operators.
_SEVERAL = "several"

#: Messages that name a type; others are cut at the first number or name.
_TYPE = re.compile(r"wanted [^;]*(float32|int8).*, got (a zero point .* of less bits|\w+)")
_LABEL = re.compile(r"^(model: )?((operator|input|tensor|output) .*?: )?")


@dataclass(frozen=True)
class Outcome:
    """Result of a node test.

    - ``kind``: its operator.
    - ``state``: "equal" to the test's results, "onnxruntime" if those of ONNX Runtime are others
      and it is equal to them, "different" or "refused".
    - ``reason``: why it is refused.
    """

    name: str
    kind: str
    state: str
    reason: str = ""


def cases() -> Iterator[Any]:
    """Yield the node tests all of whose operators are read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests: list[Any] = [*load_model_tests(kind="node")]
    for case in tests:
        kinds = {node.op_type for node in case.model.graph.node}
        if kinds <= SUPPORTED | _FOLDED and kinds & SUPPORTED:
            yield case


def kind_of(case: Any) -> str:
    """Return the operator of a test, or the name of those with several."""
    kinds = {node.op_type for node in case.model.graph.node}
    return next(iter(kinds)) if len(kinds) == 1 else _SEVERAL


def equal(got: np.ndarray, wanted: np.ndarray, case: Any) -> bool:
    """Return whether a result is that of a test: integers equal, floats within its bounds."""
    if isinstance(wanted, onnx.TensorProto):
        wanted = onnx.numpy_helper.to_array(wanted)
    wanted = np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if wanted.dtype.kind != "f":
        return np.array_equal(got, wanted)
    return np.allclose(got, wanted, case.rtol, case.atol, equal_nan=True)


def reference(case: Any, inputs: list[np.ndarray]) -> list[Any]:
    """Return the outputs of ONNX Runtime."""
    session = onnxruntime.InferenceSession(case.model.SerializeToString())
    return [
        *session.run(None, dict(zip((e.name for e in session.get_inputs()), inputs, strict=True)))
    ]


def all_equal(got: Sequence[np.ndarray], wanted: list[np.ndarray], case: Any) -> bool:
    """Return whether all outputs are equal."""
    same = (equal(*each, case) for each in zip(got, wanted, strict=True))
    return len(got) == len(wanted) and all(same)


def outcome(case: Any) -> Outcome:
    """Return the result of a test."""
    kind = kind_of(case)
    try:
        with Backend.prepare(case.model) as prepared:
            for inputs, wanted in case.data_sets:
                got = prepared.run(inputs)
                if not all_equal(got, wanted, case):
                    other = all_equal(got, reference(case, inputs), case)
                    return Outcome(case.name, kind, "onnxruntime" if other else "different")
        return Outcome(case.name, kind, "equal")
    except SkipTest as refusal:
        return Outcome(case.name, kind, "refused", str(refusal))


def short(reason: str) -> str:
    """Return the reason of a refusal without the names of tensors and numbers."""
    found = _TYPE.search(reason)
    if found:
        return "types"
    cause = _LABEL.sub("", reason).split(", got")[0].split("; ")[0]
    return re.sub(r" \(.*?\)", "", cause)


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the lines of the table: tests of each operator by state, and reasons of refusals."""
    rows: dict[str, list[Outcome]] = {}
    for each in outcomes:
        rows.setdefault(each.kind, []).append(each)
    total = [each for row in rows.values() for each in row]
    lines = ["| operator | tests | equal | refused | reasons |", "|---|---|---|---|---|"]
    for kind, row in [*sorted(rows.items(), key=lambda item: item[0].lower()), ("all", total)]:
        counts = Counter(each.state for each in row)
        same, others = str(counts["equal"]), counts["onnxruntime"]
        same += f" and {others} to ONNX Runtime alone" if others else ""
        reasons = sorted({short(each.reason) for each in row if each.state == "refused"})
        text = "; ".join(reasons) if kind != "all" else ""
        lines.append(f"| {kind} | {len(row)} | {same} | {counts['refused']} | {text} |")
    return lines


def page(outcomes: Iterable[Outcome]) -> str:
    """Return the reference page with the table."""
    before, rest = PAGE.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    return "\n".join([before + MARKS[0], "", *table(outcomes), "", MARKS[1] + after])


def main() -> int:
    """Print the table, or put it into the page; return 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--refused", action="store_true", help="print each test that is refused")
    arguments = parser.parse_args()
    outcomes = [outcome(case) for case in cases()]
    wrong = [each.name for each in outcomes if each.state == "different"]
    if arguments.refused:
        lines = [f"{e.kind}: {e.name}: {e.reason}" for e in outcomes if e.state == "refused"]
    else:
        lines = table(outcomes)
    if arguments.write:
        PAGE.write_text(page(outcomes))
    else:
        print("\n".join(lines))
    print(*(f"{name}: another result" for name in wrong), sep="\n", end="", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
