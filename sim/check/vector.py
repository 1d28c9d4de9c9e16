"""Dependences inside one VECTOR or SOFTMAX: groups that read results of its earlier groups."""

import numpy as np

from celosia.hw.arch.config import Config
from celosia.hw.arch.isa import PRODUCT_MODES, Instruction, Mode, Opcode, Space
from celosia.sim.check import footprint
from celosia.sim.check.addresses import Pattern


def _order(pattern: Pattern, config: Config) -> np.ndarray:
    """Return the number of the group that each address of a pattern belongs to, flat."""
    channels = pattern.elements
    groups = -(-channels // config.lanes)
    pixels = pattern.size // channels
    first = np.arange(pixels)[:, None] * groups
    return (first + np.arange(channels) // config.lanes).ravel()


def in_order_matters(i: Instruction, config: Config) -> bool:
    """Return True if a group of a VECTOR reads results of an earlier one.

    Such an instruction is the same as running its groups one after the other; any other may read
    everything before it writes anything. Addresses that are only written again do not count.
    """
    combines = i.destination == Space.ACCUMULATORS.value and i.mode != Mode.OVERWRITE.value
    return combines and _writes_again(i, config) or feeds_itself(i, config)


def feeds_itself(i: Instruction, config: Config) -> bool:
    """Return True if the source of a group of VECTOR or SOFTMAX overlaps results of an earlier one.

    Reads of the source run ahead of writes, so that is a race. Repeated updates of the same sums
    are none in the modes ADD and MAX: the accumulators' port forwards each to the next. Products
    and squares are not forwarded. Other instructions have no groups.
    """
    if i.opcode is Opcode.SOFTMAX:
        i = footprint.copy_of(i)
    if i.opcode is not Opcode.VECTOR:
        return False
    multiplies = i.destination == Space.ACCUMULATORS.value and Mode(i.mode) in PRODUCT_MODES
    if multiplies and _writes_again(i, config):
        return True
    if i.source != i.destination:
        return False
    target = footprint.destination(i, config)
    offsets = footprint.window(i)
    first, last = (footprint.source(i, config, offset) for offset in (offsets[0], offsets[-1]))
    if first.base > target.last or last.last < target.base:
        return False
    never = np.iinfo(np.int64).max
    written = np.full(target.last - target.base + 1, never)
    # The last assignment wins; in reverse order that is the earliest group.
    written[target.addresses().ravel()[::-1] - target.base] = _order(target, config)[::-1]
    for offset in offsets:
        element = footprint.source(i, config, offset)
        read = element.addresses().ravel() - target.base
        inside = (read >= 0) & (read < written.size)
        if np.any(_order(element, config)[inside] > written[read[inside]]):
            return True
    return False


def _writes_again(i: Instruction, config: Config) -> bool:
    """Return True if a VECTOR writes to an address twice."""
    target = footprint.destination(i, config)
    if target.apart:
        return False
    addresses = target.addresses().ravel()
    return np.unique(addresses).size != addresses.size
