"""Records that the units share."""

from itertools import product

import pysim
from amaranth.hdl import Module, Signal

from celosia.hw.arch.registers import Activity
from celosia.hw.streams import activity_of


async def test_activity_of_the_first_class_that_holds():
    m = Module()
    conditions, activity = Signal(2), Signal(Activity)
    classes = (conditions[0], Activity.WEIGHTS), (conditions[1], Activity.BUSY)
    m.d.sync += activity.eq(activity_of(*classes, otherwise=Activity.DRAIN))
    idle = Signal(Activity, init=Activity.BUSY)
    m.d.sync += idle.eq(activity_of())
    ctx = await pysim.simulation(m)
    wanted = {(0, 0): Activity.DRAIN, (0, 1): Activity.BUSY}
    for first, second in product(range(2), repeat=2):
        ctx.set(conditions, first | second << 1)
        await ctx.tick()
        assert ctx.get(activity) is wanted.get((first, second), Activity.WEIGHTS)
    assert ctx.get(idle) is Activity.IDLE
