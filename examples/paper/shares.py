"""Shares of a network's cycles, in the terms of the paper's table 3."""

from collections.abc import Sequence
from typing import NamedTuple

from celosia import Config, profile
from celosia.hw.arch.isa import Opcode
from celosia.sim.check import footprint
from celosia.sw.profile import Stretch
from celosia_examples.paper.networks import Made


class Shares(NamedTuple):
    """Cycles by the activity of the array; the four sum to all cycles."""

    active: int  #: A vector enters the array.
    stall: int  #: None enters, because weights or parameters have not arrived.
    shift: int  #: None enters, because a tile moves from the weight buffer into the array.
    other: int  #: None enters for another reason: no matrix operation is ready.

    def percent(self) -> list[float]:
        """Return the shares in per cent."""
        return [100 * cycles / sum(self) for cycles in self]


class ShareResult(NamedTuple):
    """Estimate of one network, for one batch."""

    cycles: int
    shares: Shares  #: As this core works.
    as_tpu: Shares  #: With the cycles of waiting divided as on the paper's TPU, see ``divided``.
    multiplications: int
    weight_bytes: int  #: Weights loaded, those of tiles' margins and repeated ones included.
    useful: float  #: Share of the multipliers in use, per cent of all cycles.

    def tops(self, clock_hz: float) -> float:
        """Return operations per second in units of 10¹², two for each multiplication."""
        return 2e-12 * self.multiplications * clock_hz / self.cycles


def shares(stretches: Sequence[Stretch], config: Config) -> Shares:
    """Return the cycles of a batch by the activity of the array."""
    active = stall = shift = other = 0
    for stretch in stretches:
        if stretch.event is not None:
            entered = _vectors(stretch, config)
            active, shift = active + entered, shift + stretch.cycles - entered
        elif stretch.cause == "weights":
            stall += stretch.cycles
        else:
            other += stretch.cycles
    return Shares(active, stall, shift, other)


def _vectors(stretch: Stretch, config: Config) -> int:
    """Return the cycles of a pass in which a vector enters the array."""
    assert stretch.event is not None
    i = stretch.event.instruction
    return min(stretch.cycles, footprint.pixels(i) * footprint.steps(i, config))


def divided(stretches: Sequence[Stretch], config: Config) -> Shares:
    """Return the same cycles, those of waiting divided as on the paper's TPU.

    Here a tile loads row by row just ahead of the first vector, so that only a pass of few vectors
    waits for it. The TPU shifts the whole tile in before the pass. So, of each wait for weights:

    - as many cycles as vectors hid the load of the tile count as shift;
    - then up to R cycles, in which the sums of the pass before leave the array, as other;
    - the rest is stall.
    """
    active, stall, shift, other = shares(stretches, config)
    load = config.rows // config.weight_rows
    hidden = leaves = 0
    for stretch in stretches:
        if stretch.event is not None:
            hidden, leaves = min(load, footprint.pixels(stretch.event.instruction)), config.rows
        elif stretch.cause == "weights":
            moved = min(stretch.cycles, hidden)
            drained = min(stretch.cycles - moved, leaves)
            hidden, leaves = hidden - moved, leaves - drained
            shift, other, stall = shift + moved, other + drained, stall - moved - drained
    return Shares(active, stall, shift, other)


def measure(network: Made, config: Config, batch: int, bandwidth: float) -> ShareResult:
    """Return the estimate of one batch of a network.

    Parameters
    ----------
    network : Made
        The network.
    config : Config
        Sizes of the core.
    batch : int
        Samples of one run.
    bandwidth : float
        Beats of the external memory per cycle.

    Returns
    -------
    ShareResult
        Cycles, and their shares.
    """
    estimate = profile(network.graph, config=config, batch=batch, bandwidth=bandwidth)
    total, stretches = estimate.total, estimate.stretches
    instructions = (event.instruction for event in estimate.events)
    loads = (i for i in instructions if i.opcode is Opcode.LOAD_WEIGHTS)
    return ShareResult(
        cycles=total.cycles,
        shares=shares(stretches, config),
        as_tpu=divided(stretches, config),
        multiplications=total.macs * batch,
        weight_bytes=sum(i.tiles for i in loads) * config.tile_bytes,
        useful=100 * total.utilisation,
    )
