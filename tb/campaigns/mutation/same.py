"""Changes that make no difference: two circuits compared by the solver.

They are the same if outputs and next values agree for all inputs and all values of the registers
that both have, and if all initial values agree. Registers match by name.
"""

import hashlib
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import bitwuzla
from amaranth.lib.wiring import Component

from celosia.hw.flow import tools
from mutation.sites import ROOT, Changed

sys.path.append(str(ROOT / "tb" / "formal"))
btor: Any = import_module("btor")
_RTLIL: Any = import_module("amaranth.back.rtlil")

#: Most components compared, not counting those that differ only in size; and time of a comparison.
COMPONENTS = 24
_MILLISECONDS = 20_000
#: A circuit with longer text is not compared.
_CHARACTERS = 400_000

_SCRIPT = (
    "read_rtlil {stem}.il; hierarchy -top top; proc; flatten; memory -nomap; memory_nordff;"
    " memory_map; opt_expr; opt_clean; dffunmap; write_btor {stem}.btor"
)


class _Paired(btor.Unrolled):
    """Unrolled circuit that shares inputs and first registers with circuits of the same names."""

    shared: dict[tuple[str, int, int], Any]

    def begin(self) -> None:
        """Find the values of the first cycle."""
        self._step()

    def _free(self, number: int, bits: int) -> Any:
        key = (self.circuit.names[number], len(self.cycles), bits)
        if key not in self.shared:
            self.shared[key] = super()._free(number, bits)
        return self.shared[key]


def _circuit(text: str, folder: Path) -> Any:
    stem = hashlib.sha256(text.encode()).hexdigest()[:20]
    (folder / f"{stem}.il").write_text(text)
    tools.run("yosys", ["-q", "-p", _SCRIPT.format(stem=stem)], folder / f"{stem}.log")
    circuit = btor.parse((folder / f"{stem}.btor").read_text())
    # Undefined values, as of words that a memory does not have, are the same ones in both.
    undefined = sorted(n for n, name in circuit.names.items() if name == f"n{n}")
    circuit.names |= {n: f"undefined {k}" for k, n in enumerate(undefined)}
    return circuit


def _first_values(circuit: Any) -> dict[str, Any]:
    """Return the initial values of registers by name: operator and operands of the constant."""
    nodes = {number: (operator, rest[1:]) for number, operator, rest in circuit.nodes}
    return {circuit.names[state]: nodes[first] for state, first in circuit.init.items()}


def equivalent(texts: tuple[str, str], folder: Path) -> bool:
    """Return True if two circuits in RTLIL are proven the same; False if a tool gives up."""
    try:
        circuits = [_circuit(text, folder) for text in texts]
    except (tools.ToolError, ValueError, KeyError):
        return False
    first, second = map(_first_values, circuits)
    if any(first[name] != second[name] for name in first.keys() & second.keys()):
        return False
    manager = bitwuzla.TermManager()
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, _MILLISECONDS)
    solver = bitwuzla.Bitwuzla(manager, options)
    shared: dict = {}
    values = []
    for circuit in circuits:
        cycles = _Paired(circuit, manager, fixed=set(), from_reset=False)
        cycles.shared = shared
        cycles.begin()
        states = {circuit.names[state]: state for state in circuit.next}
        terms = {f"next {name}": circuit.next[state] for name, state in states.items()}
        # Signals without bits have no number.
        terms |= {f"output {name}": node for name, node in circuit.outputs.items() if node > 0}
        values.append({name: cycles.cycles[0][node] for name, node in terms.items()})
    one, other = values
    end = time.monotonic() + 2 * _MILLISECONDS / 1000
    for name in one.keys() & other.keys():
        if one[name].sort() != other[name].sort() or time.monotonic() > end:
            return False
        differ = manager.mk_term(bitwuzla.Kind.DISTINCT, [one[name], other[name]])
        if solver.check_sat(differ) != bitwuzla.Result.UNSAT:
            return False
    return True


def _text(thing: Any) -> str:
    return _RTLIL.convert(thing, name="top", emit_src=False)


def same_circuit(things: Iterable[Any], changed: Changed) -> bool:
    """Return True if all elaborated components are proven the same without the change.

    ``things``: compared once for each text of their circuit; ``changed``: entered; the comparison
    leaves it and enters it again.
    """
    pairs: dict[str, str] = {}
    for thing in things:
        if not isinstance(thing, Component):
            continue
        try:
            with_it = _text(thing)
            changed.__exit__()
            pairs[_text(thing)] = with_it
        except Exception:
            # Amaranth refuses, for instance a component without function.
            return False
        finally:
            changed.__enter__()
    different = [(right, wrong) for right, wrong in pairs.items() if right != wrong]
    if not pairs or len(different) > COMPONENTS:
        return False
    if max((len(text) for pair in different for text in pair), default=0) > _CHARACTERS:
        return False
    with tempfile.TemporaryDirectory() as name:
        return all(equivalent(pair, Path(name)) for pair in different)
