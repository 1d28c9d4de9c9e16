"""Claims about queues, common to several proofs."""

from typing import Any

from amaranth.hdl import Array, Cat, Mux, Signal, Value, ValueLike
from prove import Spec


def in_order(
    spec: Spec,
    *,
    push: ValueLike,
    value: ValueLike,
    pop: ValueLike,
    front: ValueLike,
    entries: list[Value],
    level: Value,
    name: str = "",
) -> None:
    """Claim that what goes in comes out: once, in order, unchanged.

    One entry is followed, any, chosen by a free input: it must come to the front after exactly
    those that were before it, and not vanish earlier.

    ``spec``: takes the claims; ``push``, ``value``: an entry goes in, and what it is; ``pop``,
    ``front``: an entry goes out, and what it is; ``entries``, ``level``: what is inside, the oldest
    first, and how many of these; ``name``: prefix of the names of the claims.
    """
    m = spec.m
    mark = spec.free(f"{name}mark".replace(" ", "_"), 1)
    followed = Signal()
    done = Signal()
    seen_behind = Signal()
    token = Signal(len(Value.cast(value)))
    ahead = Signal(len(level) + 1)
    last = Signal()
    m.d.comb += last.eq(followed & (ahead == 0))
    with m.If(followed & (ahead == 1)):
        m.d.sync += seen_behind.eq(1)
    with m.If(push & mark & ~followed & ~done):
        m.d.sync += [followed.eq(1), token.eq(Value.cast(value)), ahead.eq(level - pop)]
    with m.Elif(followed & pop):
        m.d.sync += ahead.eq(ahead - 1)
        with m.If(last):
            m.d.sync += [followed.eq(0), done.eq(1)]
    spec.claim(f"{name}in order", ~(last & pop) | (Value.cast(front) == token))
    spec.claim(f"{name}not lost", ~followed | (ahead < level))
    spec.claim(f"{name}unchanged", ~followed | (Array(entries)[ahead] == token))
    spec.cover(f"{name}passes", done & (seen_behind | (len(entries) == 1)))


class Pair:
    """Content of a ``SkidBuffer`` inside a part.

    ``path``: as in ``Spec.see``; ``width``, ``direct``: bits of its payload, those that are
    registers; ``valid``: it offers something; ``entries``, ``level``: what is inside, the oldest
    first, and how many of these.
    """

    def __init__(self, spec: Spec, path: str, *, width: int, valid: Value, direct: int = 0) -> None:
        even, odd = (spec.see(f"{path}.{name}", width) for name in ("even", "odd"))
        self.full: Any = spec.see(f"{path}.full", 1)
        self.turn: Any = spec.see(f"{path}.front", 1)
        in_turn = Mux(self.turn, odd, even), Mux(self.turn, even, odd)
        self.entries = [
            Cat(held[:direct], turned[direct:])
            for held, turned in zip((even, odd), in_turn, strict=True)
        ]
        self.level = valid + self.full
        spec.claim(f"{path}: two are one and another", ~self.full | valid)


class Single:
    """Content of a ``PipelineRegister`` inside a part; members as in ``Pair``."""

    def __init__(self, spec: Spec, path: str, *, width: int, valid: Value) -> None:
        self.entries = [spec.see(f"{path}.o__payload", width)]
        self.level = Value.cast(valid)


class Fifo:
    """Content of a queue of Amaranth inside a part.

    ``path``: of the queue, as in ``Spec.see``; ``width``, ``depth``: of the queue; ``buffered``:
    ``SyncFIFOBuffered`` and not ``SyncFIFO``; ``eager``: ``EagerFIFO``, which knows by a register
    whether it is full.
    """

    def __init__(
        self,
        spec: Spec,
        path: str,
        *,
        width: int,
        depth: int,
        buffered: bool = True,
        eager: bool = False,
    ) -> None:
        words = depth - buffered
        self.depth = depth
        self.produce = (
            spec.see(f"{path}.w_port__addr", range(words)) if words > 1 else Value.cast(0)
        )
        self.consume = (
            spec.see(f"{path}.r_port__addr", range(words)) if words > 1 else Value.cast(0)
        )
        self.stored = spec.see(f"{path}.{'inner_' * buffered}level", range(words + 1))
        self.ready: Any = spec.see(f"{path}.r_rdy", 1) if buffered else Value.cast(0)
        self.level = self.stored + self.ready
        names = [f"{path}.storage[{word}]" for word in range(words)]
        storage = Array(spec.see(name, width) for name in names)

        def word(place: int) -> Value:
            at = self.consume + place
            return storage[Mux(at >= words, at - words, at)]

        self.behind = [word(place) for place in range(words)]
        apart = Mux(
            self.produce >= self.consume,
            self.produce - self.consume,
            self.produce + words - self.consume,
        )
        spec.claim(f"{path}: places", (self.produce < words) & (self.consume < words))
        full = Mux(self.stored == words, 0, self.stored)
        spec.claim(f"{path}: count", (self.stored <= words) & (full == apart))
        if eager:
            spec.claim(f"{path}: full", spec.see(f"{path}.full", 1) == (self.stored == words))
        if buffered:
            # Else a queue could refuse an entry that it has room for.
            spec.claim(f"{path}: filled", self.ready | (self.stored <= 1))

    def entries(self, front: Value) -> list[Value]:
        """Return what is inside, the oldest first, ``front`` being what a buffered queue shows."""
        if len(self.behind) == self.depth:
            return self.behind
        return [
            Mux(self.ready, front, self.behind[0]),
            *(
                Mux(self.ready, self.behind[n], self.behind[min(n + 1, self.depth - 2)])
                for n in range(self.depth - 1)
            ),
        ]


class Registered:
    """Content of a ``RegisteredFIFO`` inside a part.

    ``path``, ``width``, ``depth``: as in ``Fifo``; ``front``: the entry that it shows, if
    ``ready``; ``entries``, ``level``: what is inside, the oldest first, and how many of these.
    """

    def __init__(self, spec: Spec, path: str, *, width: int, depth: int) -> None:
        memory = Fifo(spec, f"{path}.memory", width=width, depth=depth, eager=True)
        self.front = spec.see(f"{path}.r_data", width)
        self.ready: Any = spec.see(f"{path}.r_rdy", 1)
        newest, pushed = spec.see(f"{path}.w_data", width), spec.see(f"{path}.pushed", 1)
        self.level = self.ready + memory.level + pushed
        stored = memory.entries(spec.see(f"{path}.memory.r_data", width))
        self.entries = []
        for n in range(depth + 2):
            later = Mux(memory.level > n, stored[min(n, depth - 1)], newest)
            after = Mux(memory.level > n - 1, stored[min(max(n - 1, 0), depth - 1)], newest)
            self.entries.append(Mux(self.ready, after if n else self.front, later))
