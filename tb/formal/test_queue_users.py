"""Queue before a unit: check of words, issue."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from prove import Spec, broken_module, changes, proved, refuted
from queues import Pair, Registered, Single, in_order

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.commands import CODE_BITS, REGISTERS, VALUE_BITS, WORD_BYTES, register_limits
from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.presets import preset
from celosia.hw.lib.skid_buffer import FAR
from celosia.hw.sequencer import check, issue

_CODES = slice(0, CODE_BITS)
_VALUES = slice(CODE_BITS, None)


NANO = preset("nano")
MOVES = preset("nano,links=skid,activation_weights=true")


def _link(spec, path, width, *, config, block=None, direct=0):
    """Return what a link of the check holds."""
    valid = spec.see(f"{path}.o__valid", 1)
    if not config.skid:
        return Single(spec, path, width=width, valid=valid)
    held = Pair(spec, path, width=width, valid=valid, direct=direct)
    if block:
        for bit in range(direct + block, width, block):
            copies = [spec.see(f"{path}.{name}_{bit}", 1) for name in ("valid", "full", "front")]
            spec.claim(f"copies of bit {bit}", Cat(*copies) == Cat(valid, held.full, held.turn))
    return held


def _two(m, *, push, value, pop):
    """Return the content of a queue of at most two, the oldest first, and their number."""
    words, level = [Signal.like(Value.cast(value)) for _ in range(2)], Signal(range(3))
    left = level - pop
    with m.If(pop):
        m.d.sync += words[0].eq(words[1])
    with m.If(push):
        with m.If(left == 0):
            m.d.sync += words[0].eq(value)
        with m.Else():
            m.d.sync += words[1].eq(value)
    m.d.sync += level.eq(left + push)
    return words, level


def _table_claims(spec, config, there, word, entry):
    """Claim that a word, if it is there, has its entry of the table."""
    code, units, limits = word[_CODES], len(isa.Unit), register_limits(config)
    opcodes = {opcode.value for opcode in isa.Opcode if isa.has(opcode, config)}
    known = {register.code for registers in REGISTERS.values() for register in registers}
    for unit in isa.Unit:
        codes = {opcode for opcode in opcodes if isa.UNITS[isa.Opcode(opcode)] is unit}
        codes |= {register.code for register in REGISTERS.get(unit, ())}
        owns = Cat(code == c for c in codes).any()
        spec.claim(f"{unit.name} owns", ~there | (entry[unit.value] == owns))
    opcode = Cat(code == c for c in opcodes).any()
    spec.claim("opcode", ~there | (entry[units] == opcode))
    high = Signal(VALUE_BITS)
    for number, limit in limits.items():
        with spec.m.If(code == number):
            spec.m.d.comb += high.eq(limit.high)
    is_set = Cat(code == c for c in known).any()
    at = units + 2
    spec.claim("limit", ~there | ~is_set | (entry[at : at + VALUE_BITS] == high))
    positive = Cat((code == n) & bool(limit.low) for n, limit in limits.items()).any()
    spec.claim("least", ~there | ~is_set | (entry[at - 1] == positive))


def check_spec(module=check, config=MOVES):
    """Words pass in order, with the index of their instruction, and are within its limits."""
    spec = Spec()
    m = spec.m
    opcodes = [opcode.value for opcode in isa.Opcode if isa.has(opcode, config)]
    dut = spec.open("dut", module.Check(config=config))
    word = Value.cast(dut.i.payload)
    first = _link(spec, "dut.first", len(word), config=config, direct=CODE_BITS)
    last = _link(
        spec, "dut.last", check.CHECKED.size, config=config, block=FAR, direct=check.DIRECT
    )
    # Words in the first link, in the register of the table, and in the last link.
    inside, middle = Signal(), Signal.like(word)
    count, taps = Signal(streams.INDEX_BITS), Signal(VALUE_BITS, init=1)
    behind, offered = Signal(range(3)), Signal(range(3))
    leaves = dut.o.valid & dut.o.ready
    enters = ~inside | ((offered != 2) if config.skid else (offered == 0) | leaves)
    starts, passes = (behind != 0) & enters, inside & enters
    waiting, level = _two(m, push=dut.i.valid & dut.i.ready, value=word, pop=starts)
    m.d.comb += behind.eq(level)
    shown, level = _two(m, push=passes, value=Cat(middle, count, taps), pop=leaves)
    m.d.comb += offered.eq(level)
    entry = spec.see("dut.entry", check.code_entry(config).size)
    code = middle[_CODES]
    go = code < REGISTERS[isa.Unit.LOAD][0].code
    with m.If(enters):
        m.d.sync += [inside.eq(starts), middle.eq(waiting[0])]
    with m.If(passes & go & entry[: len(isa.Unit)].any()):
        m.d.sync += count.eq(count + 1)
    taken = (behind != 2) if config.skid else (behind == 0) | starts
    spec.claim("taken", dut.i.ready == taken)
    spec.claim("held", spec.see("dut.valid", 1) == inside)
    spec.claim("word held", ~inside | (spec.see("dut.held", len(word)) == middle))
    is_zero = middle[_VALUES][:VALUE_BITS] == 0
    spec.claim("zero", ~inside | (spec.see("dut.zero", 1) == is_zero))
    spec.claim("level", Cat(first.level == behind, last.level == offered).all())
    for n, (one, other) in enumerate(zip(first.entries, waiting, strict=False)):
        spec.claim(f"word {n} waits", (behind <= n) | (one == other))
    spec.claim("offered", dut.o.valid == (offered != 0))
    spec.claim("empty", dut.empty == ~(inside | behind.any() | offered.any()))
    spec.claim("word waits", spec.waits(dut.o.valid, dut.o.ready, dut.o.payload))
    spec.claim("counted", dut.index == count)
    _table_claims(spec, config, inside, middle, entry)
    if isa.has(isa.Opcode.MOVE_WEIGHTS, config):
        # The last SET before a word.
        codes = {register.name: register.code for register in REGISTERS[isa.Unit.MATRIX]}
        with m.If(inside & (code == codes["taps"])):
            m.d.sync += taps.eq(middle[_VALUES])
        long = spec.see("dut.conflicts.move_weights_taps", 1)
        spec.claim("long", long == (taps > config.columns))
    for n, (one, other) in enumerate(zip(last.entries, shown, strict=False)):
        _checked_claims(
            spec, config, offered > n, check.CHECKED(one), other, opcodes, name=f"{n}: "
        )
    error = dut.o.payload.error
    spec.cover("one after the other", (offered != 0) & inside & (error == isa.Error.NONE))
    return spec


def _checked_claims(spec, config, there, result, shown, opcodes, *, name):
    """Claim that a word, if it is there, is as it came, and within its limits without an error.

    ``shown``: the word, its index and the number of taps that the last SET before it gave.
    """
    width = 8 * WORD_BYTES + 1
    word, (index, taps) = shown[:width], (shown[width:-VALUE_BITS], shown[-VALUE_BITS:])
    code, value = word[_CODES], word[_VALUES][:VALUE_BITS]
    limits = register_limits(config)
    known = {register.code for registers in REGISTERS.values() for register in registers}
    spec.claim(f"{name}word", ~there | (result.bits == word[:-1]))
    spec.claim(f"{name}index", ~there | (result.index == index))
    spec.claim(f"{name}good", ~there | (result.good == (result.error == isa.Error.NONE)))
    spec.claim(f"{name}refused", ~there | ((result.error == isa.Error.BUS) == word[-1]))
    good = ~there | (result.error != isa.Error.NONE)
    wrong = [
        (code == number) & ((value > limit.high) | (value < limit.low))
        for number, limit in limits.items()
    ]
    spec.claim(f"{name}within limits", good | ~Cat(wrong).any())
    spec.claim(f"{name}known words", good | Cat(code == c for c in {*known, *opcodes}).any())
    if isa.has(isa.Opcode.MOVE_WEIGHTS, config):
        move = code == isa.Opcode.MOVE_WEIGHTS.value
        spec.claim(f"{name}taps of a tile's row", good | ~move | (taps <= config.columns))


def issue_spec(module=None):
    """The queue before a unit, short because instructions set one register at most here."""
    spec = Spec()
    config, unit, in_flight = preset("nano,queue_depth=3"), isa.Unit.STORE, 3
    small: Any = module or broken_module(issue)
    small.REGISTERS = {unit: REGISTERS[unit][:1]}
    small.streams = SimpleNamespace(**{**vars(streams), "TAG_BITS": 3})
    dut = spec.open("dut", small.Issue(config=config, unit=unit, in_flight=in_flight))
    depth = config.queue_depth
    bits = dut.push.payload.bits
    queue = Registered(spec, "dut.queue", width=len(bits), depth=2 * (depth + 1))
    # What becomes of words after the queue is claimed in ``test_commands``.
    offered = spec.see("dut.command.offers_0", 1)
    word = queue.front
    head = Cat(spec.see("dut.queue.ready_0", 1), spec.see("dut.queue.head_0", CODE_BITS))
    spec.claim("head", head == Cat(queue.ready, word[_CODES]))
    first = REGISTERS[unit][0].code
    go, went = bits[_CODES] < first, word[_CODES] < first
    pushed = dut.push.valid & dut.push.ready
    set_before = Signal()
    with spec.m.If(pushed):
        spec.m.d.sync += set_before.eq(~go)
    spec.given("one register each", ~dut.push.valid | go | ~set_before)
    spec.given("a GO is one", dut.push.payload.go == go)
    spec.given("no flush meanwhile", ~dut.flush)
    first_cycle = Signal(init=1)
    spec.m.d.sync += first_cycle.eq(0)
    spec.claim("nor before", spec.see("dut.command.restore_0", 1) == first_cycle)
    spec.claim("nothing in the first cycle", ~first_cycle | ((queue.level == 0) & ~offered))
    in_order(
        spec,
        name="words ",
        push=pushed,
        value=bits,
        pop=queue.ready & ~offered,
        front=word,
        entries=queue.entries,
        level=queue.level,
    )
    handed = dut.instruction.valid & dut.instruction.ready
    leaving, granted = spec.past(handed), spec.past(dut.granted)
    spec.claim("leaves in the next cycle", spec.see("dut.leaving", 1) == leaving)
    spec.claim("granted late", spec.see("dut.admitted", 1) == granted)
    inside, waits = (Signal(range(depth + 2), name=name) for name in ("inside", "waits"))
    spec.m.d.sync += [
        inside.eq(inside + (pushed & go) - leaving),
        waits.eq(waits + (pushed & go) - granted),
    ]
    waiting = sum(
        (queue.level > n) & (entry[_CODES] < first) for n, entry in enumerate(queue.entries)
    )
    acquired = spec.see("dut.acquired", 1)
    spec.claim("inside", inside == waiting + offered)
    spec.claim("without semaphores", waits == waiting + (offered & (~acquired | granted)))
    spec.claim("counted in", spec.see("dut.count", range(depth + 1)) == waits)
    spec.claim("no more than its depth", waits <= depth)
    spec.claim("full", spec.see("dut.full", 1) == (waits == depth))
    pairs = [
        (queue.level > n + 1) & (one[_CODES] >= first) & (other[_CODES] >= first)
        for n, (one, other) in enumerate(pairwise(queue.entries))
    ]
    newest = Array(queue.entries)[queue.level - 1]
    spec.claim("no two registers in a row", ~Cat(pairs).any())
    spec.claim("newest", (queue.level == 0) | ((newest[_CODES] >= first) == set_before))
    spec.claim("never full", dut.push.ready == ~(go & (waits == depth)))

    spec.given("granted to who asks", ~dut.granted | dut.requesting)
    held = Signal()
    spec.m.d.sync += held.eq(held + dut.granted - leaving)
    spec.claim("one grant each", acquired == held)
    spec.claim("granted and still there", ~held | offered)
    spec.claim("granted before handed on", ~handed | held)
    spec.claim("handed on once", ~(handed & leaving))
    spec.claim("still there while it leaves", ~leaving | held)
    spec.claim("granted once", ~granted | (held & ~leaving))
    spec.claim("asks once", ~dut.requesting | ~held)
    header = dut.instruction.payload.fields.store
    spec.claim("wants what it waits for", ~dut.requesting | (dut.want == header.wait))

    # Tags, which the proof makes shorter: from a push until the post each has another one.
    tag_bits = small.streams.TAG_BITS
    under_way, late = Signal(range(in_flight + 1)), Signal()
    spec.m.d.sync += [under_way.eq(under_way + leaving - late), late.eq(dut.done)]
    spec.claim("one cycle late", spec.see("dut.in_flight.ended", 1) == late)
    spec.given("finishes what it took", ~dut.done | (under_way != late))
    next_tag, offered, oldest = (
        spec.see(f"dut.{name}", tag_bits)
        for name in ("in_flight.next_tag", "offered", "in_flight.oldest")
    )
    spec.claim("taken", spec.see("dut.taken", tag_bits) == under_way)
    spec.claim("tags not done", (offered - oldest)[:tag_bits] == under_way)
    spec.claim("tags not offered", (next_tag - offered)[:tag_bits] == inside)
    spec.claim("no more under way", under_way + leaving <= in_flight)
    offers = acquired & ~leaving & (under_way != in_flight)
    spec.claim("offered", dut.instruction.valid == offers)
    spec.claim("occupied", spec.see("dut.occupied", 1) == (under_way != 0))
    spec.claim("finishes what there is", ~late | (under_way != 0))
    spec.claim("tag", dut.instruction.payload.tag == offered)
    # One of the instructions, followed by its tag.
    chosen = spec.free("chosen", 1)
    seen, mine = Signal(), Signal(tag_bits)
    mask, index = Signal(SEMAPHORES), Signal.like(dut.push.payload.index)
    mask_data = spec.see("dut.in_flight.mask_data", SEMAPHORES)
    taken = pushed & go & chosen & ~seen
    done = late & (oldest == mine)
    with spec.m.If(taken):
        spec.m.d.sync += [
            seen.eq(1),
            mine.eq(next_tag),
            mask.eq(bits[CODE_BITS + SEMAPHORES :]),
            index.eq(dut.push.payload.index),
        ]
    with spec.m.Elif(done):
        spec.m.d.sync += seen.eq(0)
    kept = (mine - oldest)[:tag_bits] < (next_tag - oldest)[:tag_bits]
    spec.claim("not posted yet", ~seen | kept)
    for name, value in (("masks", mask), ("indices", index)):
        names = [f"dut.in_flight.{name}[{tag}]" for tag in range(1 << tag_bits)]
        stored = [spec.see(name, len(value)) for name in names]
        spec.claim(f"its word is kept in {name}", ~seen | (Array(stored)[mine] == value))
    oldest_is_mine = seen & (oldest == mine) & (under_way != 0)
    spec.claim("its mask is read", ~oldest_is_mine | (mask_data == mask))
    named = spec.past(seen & (oldest == mine) & ~dut.overflow & ~dut.fault_valid)
    spec.claim("index of the oldest", ~named | (dut.index == spec.past(index)))
    faulty = spec.past(seen & (dut.fault.tag == mine) & ~dut.overflow & dut.fault_valid)
    spec.claim("index of a fault", ~faulty | (dut.index == spec.past(index)))
    spec.claim("post", dut.post == spec.past(Mux(late, mask_data, 0)))
    left = (waits != 0) | acquired | (under_way != 0) | dut.post.any()
    spec.claim("waiting", dut.waiting == left)
    spec.cover("finished while the next is there", dut.done & leaving & dut.post.any())
    spec.cover("unit is full", under_way == in_flight)
    spec.cover("full", (waits == depth) & went)
    return spec


@pytest.mark.parametrize(
    "config",
    [preset("nano,links=skid"), MOVES, preset("nano,links=register")],
    ids=lambda c: c.name,
)
def test_check(config):
    proved(check_spec(config=config), depth=1, reach=8)


@changes(
    ("first.o.ready.eq(moves)", "first.o.ready.eq(last.i.ready)", "taken"),
    ("last.i.valid.eq(valid)", "last.i.valid.eq(valid | first.o.valid)", "level"),
    ("moves.eq(~valid | last.i.ready)", "moves.eq(~valid | self.o.ready)", "held"),
    ("with m.If(valid & last.i.ready)", "with m.If(valid)", "counted"),
    ("self.index + entry.go", "self.index + 1", "counted"),
    ("entry.high < value", "entry.high + 1 < value", "0: within limits"),
    ("self.entry.positive.eq(limit.low)", "self.entry.positive.eq(0)", "least"),
    ("limit.high", "limit.high | 1", "limit"),
    ("Mux(entry.units.any(), verdict, isa.Error.OPCODE)", "verdict", "0: known words"),
    ("value > most", "value >= most", "long"),
    ("Cat(beyond).any()", "~Cat(beyond).any()", "0: taps of a tile's row"),
)
def test_check_broken(right, wrong, claim):
    refuted(check_spec(broken_module(check, right, wrong)), claim, depth=12)


def test_issue():
    proved(issue_spec(), depth=1, reach=32)


@changes(
    (
        "(acquired | self.granted) & ~leaving & (under_way",
        "command.o.valid & ~leaving & (under_way",
        "granted before handed on",
    ),
    ("(under_way != self.in_flight)", "(under_way != 0)", "offered"),
    (" & ~leaves\n", "\n", "handed on once"),
    ("self.granted) & ~leaving),", "self.granted) | leaving),", "one grant each"),
    ("oldest.eq(self.oldest + ended)", "oldest.eq(self.oldest + self.done)", "tags not done"),
    ("word[CODE_BITS + SEMAPHORES :]", "word[CODE_BITS:]", "its word is kept in masks"),
    ("named.addr.eq(Mux(self.overflow", "named.addr.eq(Mux(~self.overflow", "index of a fault"),
    ("mask.addr.eq(self.oldest + ended)", "mask.addr.eq(self.oldest)", "its mask is read"),
    ("| occupied | self.post.any()", "| occupied", "waiting"),
    ("count + pushed - admitted", "count + pushed - (admitted & ~pushed)", "counted in"),
    ("(count == depth - 1)", "(count == depth)", "full"),
)
def test_issue_broken(right, wrong, claim):
    refuted(issue_spec(broken_module(issue, right, wrong)), claim, depth=32)
