"""Circuits in BTOR2, unrolled over cycles into terms of the solver Bitwuzla.

Format: A. Niemetz et al., "Btor2, BtorMC and Boolector 3.0", CAV 2018. Read is what Yosys writes of
a circuit whose memories have become registers: no arrays, no negated operands.
"""

from dataclasses import dataclass, field

from bitwuzla import Bitwuzla, Kind, Term, TermManager

#: Operators that give bits.
_BITS = {
    "not": Kind.BV_NOT,
    "neg": Kind.BV_NEG,
    "inc": Kind.BV_INC,
    "dec": Kind.BV_DEC,
    "and": Kind.BV_AND,
    "nand": Kind.BV_NAND,
    "or": Kind.BV_OR,
    "nor": Kind.BV_NOR,
    "xor": Kind.BV_XOR,
    "xnor": Kind.BV_XNOR,
    "add": Kind.BV_ADD,
    "sub": Kind.BV_SUB,
    "mul": Kind.BV_MUL,
    "sll": Kind.BV_SHL,
    "srl": Kind.BV_SHR,
    "sra": Kind.BV_ASHR,
    "concat": Kind.BV_CONCAT,
    "redand": Kind.BV_REDAND,
    "redor": Kind.BV_REDOR,
    "redxor": Kind.BV_REDXOR,
}
#: Operators that give a truth value, in BTOR2 one bit.
_TRUTHS = {
    "eq": Kind.EQUAL,
    "neq": Kind.DISTINCT,
    "ult": Kind.BV_ULT,
    "ulte": Kind.BV_ULE,
    "ugt": Kind.BV_UGT,
    "ugte": Kind.BV_UGE,
    "slt": Kind.BV_SLT,
    "slte": Kind.BV_SLE,
    "sgt": Kind.BV_SGT,
    "sgte": Kind.BV_SGE,
}
_INDEXED = {"uext": Kind.BV_ZERO_EXTEND, "sext": Kind.BV_SIGN_EXTEND, "slice": Kind.BV_EXTRACT}
#: Prefix of the name of an input that shows a register of this name.
SEEN = "see:"

_CONSTANTS = {"const": 2, "constd": 10, "consth": 16}
_FILLED = {"zero": "0", "one": "1", "ones": "-1"}


@dataclass
class Circuit:
    """A circuit as read.

    ``widths``: bits of each sort, by its number; ``nodes``: number, operator and operands of each
    node that has a value, in order of use; ``names``: names of inputs and states; ``outputs``,
    ``init``, ``next``: nodes of the outputs, by name; of the first and the next value of a state,
    by its number; ``seen``: state that an input shows, by the number of the input.
    """

    widths: dict[int, int] = field(default_factory=dict)
    nodes: list[tuple[int, str, list[str]]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    init: dict[int, int] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)


def parse(text: str) -> Circuit:
    """Read a circuit.

    Raises ``ValueError`` if there is a line that this module does not know.
    """
    circuit = Circuit()
    known = {*_BITS, *_TRUTHS, *_INDEXED, *_CONSTANTS, *_FILLED, "ite", "input", "state"}
    for line in text.splitlines():
        words = line.split(";")[0].split()
        if not words:
            continue
        number, operator, rest = int(words[0]), words[1], words[2:]
        if operator == "sort" and rest[0] == "bitvec":
            circuit.widths[number] = int(rest[1])
        elif operator == "output":
            circuit.outputs[rest[1]] = int(rest[0])
        elif operator in ("init", "next"):
            getattr(circuit, operator)[int(rest[1])] = int(rest[2])
        elif operator in known:
            circuit.nodes.append((number, operator, rest))
            if operator in ("input", "state"):
                circuit.names[number] = rest[1] if len(rest) > 1 else f"n{number}"
        else:
            raise ValueError(f"not read: {line}")
    # First values are constants, and may come after their states; what is seen is a state.
    order = (*_CONSTANTS, *_FILLED, "state", "input")
    circuit.nodes.sort(key=lambda node: order.index(node[1]) if node[1] in order else len(order))
    states = {circuit.names[n]: n for n, operator, _ in circuit.nodes if operator == "state"}
    for number, operator, _ in circuit.nodes:
        path = circuit.names.get(number, "").removeprefix(SEEN)
        if operator == "input" and path != circuit.names[number]:
            if path not in states:
                raise ValueError(f"no register {path!r}, there are {', '.join(sorted(states))}")
            circuit.seen[number] = states[path]
    return circuit


class Unrolled:
    """Values of all nodes of a circuit, cycle by cycle.

    ``manager``: owns the terms; ``fixed``: inputs that have the same value in all cycles;
    ``from_reset``: cycle 0 has the first values of the states; else any.
    """

    def __init__(
        self, circuit: Circuit, manager: TermManager, *, fixed: set[str], from_reset: bool
    ) -> None:
        self.circuit = circuit
        self.manager = manager
        self.fixed = fixed
        self.from_reset = from_reset
        self.cycles: list[dict[int, Term]] = []
        self._held: dict[int, Term] = {}

    def output(self, name: str, cycle: int) -> Term:
        """Return the truth value of an output of one bit in a cycle."""
        while len(self.cycles) <= cycle:
            self._step()
        return self._truth(self.cycles[cycle][self.circuit.outputs[name]])

    def values(self, solver: Bitwuzla, cycle: int) -> dict[str, int]:
        """Return inputs and registers of a cycle that are not zero in what the solver found."""
        values = self.cycles[cycle]
        found = {
            name: int(solver.get_value(values[number]).value(10))
            for number, name in self.circuit.names.items()
            if number not in self.circuit.seen
        }
        return {name: value for name, value in found.items() if value}

    def _truth(self, bit: Term) -> Term:
        return self.manager.mk_term(Kind.EQUAL, [bit, self._value(1, "1", 2)])

    def _value(self, bits: int, digits: str, base: int) -> Term:
        return self.manager.mk_bv_value(self.manager.mk_bv_sort(bits), digits, base)

    def _free(self, number: int, bits: int) -> Term:
        name = f"{self.circuit.names[number]}@{len(self.cycles)}"
        return self.manager.mk_const(self.manager.mk_bv_sort(bits), name)

    def _step(self) -> None:
        values: dict[int, Term] = {}
        for number, operator, rest in self.circuit.nodes:
            bits = self.circuit.widths[int(rest[0])]
            values[number] = self._term(values, number, operator, bits, rest[1:])
        self.cycles.append(values)

    def _state(self, values: dict[int, Term], number: int, bits: int) -> Term:
        circuit = self.circuit
        if self.cycles:
            following = circuit.next.get(number)
            return self._free(number, bits) if following is None else self.cycles[-1][following]
        if self.from_reset and number in circuit.init:
            return values[circuit.init[number]]
        return self._free(number, bits)

    def _term(
        self, values: dict[int, Term], number: int, operator: str, bits: int, rest: list[str]
    ) -> Term:
        make = self.manager.mk_term
        if operator == "state":
            return self._state(values, number, bits)
        if number in self.circuit.seen:
            return values[self.circuit.seen[number]]
        if operator == "input":
            if self.circuit.names[number] not in self.fixed:
                return self._free(number, bits)
            return self._held.setdefault(number, self._free(number, bits))
        if operator in _CONSTANTS:
            return self._value(bits, rest[0], _CONSTANTS[operator])
        if operator in _FILLED:
            return self._value(bits, _FILLED[operator], 10)
        if operator == "uext" and rest[:2] == ["-1", str(bits)]:
            # Yosys has no number for a value of no bits.
            return self._value(bits, "0", 10)
        if operator in _INDEXED:
            indices = [int(word) for word in rest[1 : 3 if operator == "slice" else 2]]
            return make(_INDEXED[operator], [values[int(rest[0])]], indices)
        operands = [values[int(word)] for word in rest if word.isdecimal()]
        if operator in _BITS:
            arity = 1 if operator in ("not", "neg", "inc", "dec") or operator[:3] == "red" else 2
            return make(_BITS[operator], operands[:arity])
        if operator == "ite":
            return make(Kind.ITE, [self._truth(operands[0]), *operands[1:3]])
        truth = make(_TRUTHS[operator], operands[:2])
        return make(Kind.ITE, [truth, self._value(1, "1", 2), self._value(1, "0", 2)])
