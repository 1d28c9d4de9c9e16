"""Class of each cycle of a unit."""

from amaranth.hdl import Module, Mux, Signal

from celosia.hw.arch.config import SEMAPHORES
from celosia.hw.arch.registers import Activity
from celosia.hw.lib.component import Component, In, Out


class UnitActivity(Component):
    """Class of each cycle of a unit, with what its next instruction waits for.

    Members
    -------
    unit_activity : In(Activity)
        Class of the cycle, from the unit.
    held, want, lacking : In(1), In(SEMAPHORES), In(SEMAPHORES)
        The next instruction has not got its semaphores; these semaphores; those without a count.
    waiting : In(1)
        An instruction is not done.
    activity : Out(Activity)
        IDLE becomes SEMAPHORE + n while the next instruction lacks semaphore n, the first of them,
        DRAIN while ``waiting``, else EMPTY. DRAIN becomes SEMAPHORE + n likewise.

    Timing
    ------
    ``activity`` is one cycle late.
    """

    def __init__(self) -> None:
        self.unit_activity = In(Activity)
        self.held = In(1)
        self.want = In(SEMAPHORES)
        self.lacking = In(SEMAPHORES)
        self.waiting = In(1)
        self.activity = Out(Activity)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # All inputs pass a register.
        unit = Signal(Activity)
        waiting = Signal()
        missing = Signal(SEMAPHORES)
        m.d.sync += [
            unit.eq(self.unit_activity),
            waiting.eq(self.waiting),
            missing.eq(Mux(self.held, self.want & self.lacking, 0)),
        ]
        m.d.comb += self.activity.eq(unit)
        idle = unit == Activity.IDLE
        with m.If((idle | (unit == Activity.DRAIN)) & missing.any()):
            for semaphore in reversed(range(SEMAPHORES)):
                with m.If(missing[semaphore]):
                    m.d.comb += self.activity.eq(Activity.SEMAPHORE.value + semaphore)
        with m.Elif(idle):
            m.d.comb += self.activity.eq(Mux(waiting, Activity.DRAIN, Activity.EMPTY))
        return m
