"""Proofs about components: what is assumed, claimed and reached, checked by Yosys and Bitwuzla.

Yosys writes the circuit as BTOR2, ``btor`` unrolls it, and Bitwuzla decides. A claim is *proved*
where it holds in the first ``depth`` cycles after reset, and in any cycle that follows ``depth``
cycles in which all claims hold, whatever the registers held before those (k-induction). It is
*refuted* by values of the inputs that break it within these first cycles.
"""

import hashlib
import importlib.util
import json
import time
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import bitwuzla
import btor
import pytest
from amaranth.hdl import ClockDomain, Module, ShapeLike, Signal, Value, ValueLike
from amaranth.lib.wiring import In

from celosia.hw.flow import tools

# A module that the stubs of Amaranth leave out.
_RTLIL: Any = import_module("amaranth.back.rtlil")

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "formal"

#: Memories become registers: a proof knows every word by its name.
_SCRIPT = (
    "read_rtlil {stem}.il;{cells} hierarchy -top top; proc; flatten; memory -nomap; memory_nordff;"
    " memory_map; opt_expr; opt_clean; dffunmap; write_btor {stem}.part"
)

#: What Yosys knows of the cells of an ECP5.
_CELLS = " read_verilog -nooverwrite +/ecp5/cells_sim.v;"

#: Of one question to the solver, by the clock on the wall: a busy machine is no reason to give up.
_MILLISECONDS = 3_600_000


def _label(kind: str, name: str) -> str:
    """Return the name of an output; RTLIL has no blanks in names."""
    return f"{kind}:{name.replace(' ', '_')}"


class Spec:
    """A circuit with what is assumed and claimed of it.

    Parts are added to ``m``. Nothing is ever reset: the first cycle is the one after a reset.

    ``m``: what is checked, and what checks it.
    """

    def __init__(self) -> None:
        self.m = Module()
        domain: Any = ClockDomain("sync", reset_less=True)
        self.m.domains.sync = domain
        self.fixed: set[str] = set()
        self.names: dict[str, list[str]] = {"given": [], "claim": [], "cover": []}
        self._ports: dict[str, Any] = {"clk": (domain.clk, None)}

    def free(self, name: str, shape: ShapeLike, *, fixed: bool = False) -> Any:
        """Return a signal of any value; with ``fixed`` of one value in all cycles."""
        signal: Any = Signal(shape, name=name)
        self._ports[name] = (Value.cast(signal), None)
        if fixed:
            self.fixed.add(name)
        return signal

    def see(self, path: str, shape: ShapeLike) -> Any:
        """Return a register of a part by its path: ``part.register`` or ``part.memory[word]``."""
        name = f"{btor.SEEN}{path}"
        return self._ports[name][0] if name in self._ports else self.free(name, shape)

    def open(self, name: str, part: Any, *driven: str) -> Any:
        """Add a component whose inputs are free, except those ``driven`` by the spec."""
        self.m.submodules[name] = part
        for path, member, value in part.signature.flatten(part):
            port = "__".join(map(str, path))
            if member.flow == In and port not in driven and Value.cast(value).shape().width:
                self._ports[f"{name}__{port}"] = (Value.cast(value), None)
        return part

    def _name(self, kind: str, name: str, value: ValueLike) -> None:
        if name in self.names[kind]:
            raise ValueError(f"{kind} {name!r} is there already")
        self.names[kind].append(name)
        signal = Signal(name=_label(kind, name))
        self.m.d.comb += signal.eq(Value.cast(value).any())
        self._ports[signal.name] = (signal, None)

    def given(self, name: str, value: ValueLike) -> None:
        """Assume ``value`` in every cycle."""
        self._name("given", name, value)

    def claim(self, name: str, value: ValueLike) -> None:
        """Claim ``value`` in every cycle."""
        self._name("claim", name, value)

    def cover(self, name: str, value: ValueLike) -> None:
        """Want a run in which ``value`` holds once."""
        self._name("cover", name, value)

    def past(self, value: ValueLike, cycles: int = 1) -> Signal:
        """Return a value of some cycles ago; zero before the first."""
        late: Any = Value.cast(value)
        for _ in range(cycles):
            held = Signal(late.shape())
            self.m.d.sync += held.eq(late)
            late = held
        return late

    def waits(self, valid: ValueLike, ready: ValueLike, *payload: ValueLike) -> Value:
        """Return that what is offered stays and stays the same until it is taken."""
        held = self.past(Value.cast(valid) & ~Value.cast(ready))
        same: Value = Value.cast(valid)
        for part in payload:
            same = same & (Value.cast(part) == self.past(part))
        return ~held | same

    def btor(self) -> str:
        """Return the circuit in BTOR2."""
        text = _RTLIL.convert(self.m, ports=dict(self._ports), emit_src=False)
        cells = _CELLS if r"cell \CCU2C " in text else ""
        stem = hashlib.sha256((_SCRIPT + cells + text).encode()).hexdigest()[:20]
        target = CACHE / f"{stem}.btor"
        if not target.is_file():
            CACHE.mkdir(parents=True, exist_ok=True)
            (CACHE / f"{stem}.il").write_text(text)
            script = _SCRIPT.format(stem=stem, cells=cells)
            tools.run("yosys", ["-q", "-p", script], CACHE / f"{stem}.log")
            (CACHE / f"{stem}.part").rename(target)
        return target.read_text()


@dataclass
class Verdict:
    """Result of a proof.

    ``verdict``: ``"proved"``, unbounded; ``"bounded"``, true for ``depth`` cycles after reset, and
    induction was not requested; ``"refuted"``; ``"open"``, true for ``depth`` cycles, induction
    fails; ``failed``: claims that fail at the end of ``trace``; ``missed``: covers that no run
    reaches in as many cycles as were given; ``seconds``: time of a processor that the solver took;
    ``trace``: inputs and registers in each cycle of a failure that are not zero.
    """

    verdict: str
    depth: int
    failed: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    trace: list[dict[str, int]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.verdict} at depth {self.depth}: {', '.join(self.failed)}"]
        lines += [f"not reached: {name}" for name in self.missed]
        lines += [f"{cycle}: {values}" for cycle, values in enumerate(self.trace)]
        return "\n".join(lines)


class _Checker:
    """One unrolled circuit in one solver."""

    def __init__(self, spec: Spec, circuit: btor.Circuit, *, from_reset: bool) -> None:
        self.spec = spec
        self.manager = bitwuzla.TermManager()
        options = bitwuzla.Options()
        options.set(bitwuzla.Option.PRODUCE_MODELS, True)
        options.set(bitwuzla.Option.TIME_LIMIT_PER, _MILLISECONDS)
        self.solver = bitwuzla.Bitwuzla(self.manager, options)
        self.cycles = btor.Unrolled(circuit, self.manager, fixed=spec.fixed, from_reset=from_reset)

    def terms(self, kind: str, cycle: int) -> dict[str, Any]:
        """Return the truth of everything of a kind in a cycle."""
        names = self.spec.names[kind]
        return {name: self.cycles.output(_label(kind, name), cycle) for name in names}

    def assume(self, kind: str, cycle: int) -> None:
        """Take everything of a kind as true in a cycle."""
        for term in self.terms(kind, cycle).values():
            self.solver.assert_formula(term)

    def can(self, term: Any) -> bool:
        """Return whether a term can be true."""
        result = self.solver.check_sat(term)
        if result == bitwuzla.Result.UNKNOWN:
            raise RuntimeError("the solver gave up")
        return result == bitwuzla.Result.SAT

    def broken(self, cycle: int) -> list[str]:
        """Return the first claim that can be false in a cycle, if any; else all are true from now.

        A claim that is shown helps to show those after it.
        """
        for name, term in self.terms("claim", cycle).items():
            if self.can(self.manager.mk_term(bitwuzla.Kind.NOT, [term])):
                return [name]
            self.solver.assert_formula(term)
        return []

    def trace(self, cycle: int) -> list[dict[str, int]]:
        """Return what the solver found, up to a cycle."""
        return [self.cycles.values(self.solver, n) for n in range(cycle + 1)]


def _check(spec: Spec, circuit: btor.Circuit, depth: int, induction: bool) -> Verdict:
    base = _Checker(spec, circuit, from_reset=True)
    for cycle in range(depth):
        base.assume("given", cycle)
        failed = base.broken(cycle)
        if failed:
            return Verdict("refuted", depth, failed, trace=base.trace(cycle))
    if not induction:
        return Verdict("bounded", depth)
    step = _Checker(spec, circuit, from_reset=False)
    for cycle in range(depth):
        step.assume("given", cycle)
        step.assume("claim", cycle)
    step.assume("given", depth)
    failed = step.broken(depth)
    if failed:
        return Verdict("open", depth, failed, trace=step.trace(depth))
    return Verdict("proved", depth)


def _missed(spec: Spec, circuit: btor.Circuit, cycles: int) -> list[str]:
    """Return covers that nothing reaches in a number of cycles after reset."""
    checker = _Checker(spec, circuit, from_reset=True)
    met: dict[str, list[Any]] = {name: [checker.manager.mk_false()] for name in spec.names["cover"]}
    for cycle in range(cycles):
        checker.assume("given", cycle)
        for name, term in checker.terms("cover", cycle).items():
            met[name].append(term)
    make = checker.manager.mk_term
    return [name for name, terms in met.items() if not checker.can(make(bitwuzla.Kind.OR, terms))]


def prove(spec: Spec, *, depth: int, induction: bool = True, reach: int = 0) -> Verdict:
    """Check claims, and covers within ``reach`` cycles; those checked before are left out."""
    text = spec.btor()
    question = (bitwuzla.version(), depth, induction, reach, sorted(spec.fixed), spec.names)
    digest = hashlib.sha256(repr(question).encode())
    for path in (Path(__file__), Path(btor.__file__)):
        digest.update(path.read_bytes())
    digest.update(text.encode())
    known = CACHE / f"{digest.hexdigest()[:20]}.json"
    if known.is_file():
        return Verdict(**json.loads(known.read_text()))
    start = time.process_time()
    circuit = btor.parse(text)
    verdict = _check(spec, circuit, depth, induction)
    if reach:
        verdict.missed = _missed(spec, circuit, reach)
    verdict.seconds = round(time.process_time() - start, 2)
    known.write_text(json.dumps(asdict(verdict)))
    return verdict


def broken_module(module: ModuleType, right: str = "", wrong: str = "") -> ModuleType:
    """Return a module anew, with a text of its source, which is there once, replaced if given.

    Raises ``ValueError`` if the text is not there, or more than once.
    """
    path = Path(str(module.__file__))
    source = path.read_text()
    if right and source.count(right) != 1:
        raise ValueError(f"{path.name}: wanted {right!r} once, got it {source.count(right)} times")
    spec = importlib.util.spec_from_loader(module.__name__, None)
    assert spec is not None
    broken = importlib.util.module_from_spec(spec)
    exec(
        compile(source.replace(right, wrong) if right else source, path.name, "exec"),
        broken.__dict__,
    )
    return broken


def changes(*rows: Any) -> pytest.MarkDecorator:
    """Run a test for each change: a text of the source, the one in its place, the claim broken."""
    return pytest.mark.parametrize(("right", "wrong", "claim"), rows)


def proved(spec: Spec, *, depth: int, reach: int, induction: bool = True) -> None:
    """Want every claim proved and every cover reached.

    ``spec``: what is claimed; ``depth``: cycles after reset, and of the step of the induction;
    ``reach``: cycles after reset in which the covers are looked for; ``induction``: else the claims
    are proved for ``depth`` cycles after reset alone.
    """
    verdict = prove(spec, depth=depth, induction=induction, reach=reach)
    print(f"{len(spec.names['claim'])} claims, k = {depth}, {verdict.seconds} s")
    assert verdict.verdict == ("proved" if induction else "bounded"), verdict
    assert spec.names["cover"], "wanted a cover: a proof about no run says nothing"
    assert not verdict.missed, verdict


def refuted(spec: Spec, claim: str, *, depth: int) -> None:
    """Require one claim, whatever becomes of others, broken in ``depth`` cycles after reset."""
    wanted, spec.names["claim"] = spec.names["claim"], [claim]
    verdict = prove(spec, depth=depth, induction=False)
    assert claim in wanted and verdict.verdict == "refuted", verdict
