"""The sequencer: joins program reader, dispatch, queues, semaphores, counters and supervisor."""

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import stream, wiring

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import ADDRESS_BITS, SEMAPHORES, Config
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.axi.reader import length_bits, read_beat
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.delay import delayed
from celosia.hw.sequencer.counters import Counters
from celosia.hw.sequencer.dispatch import EXECUTORS, Dispatch
from celosia.hw.sequencer.faults import Faults
from celosia.hw.sequencer.issue import Issue
from celosia.hw.sequencer.program import ProgramReader
from celosia.hw.sequencer.semaphores import Semaphores
from celosia.hw.sequencer.supervisor import UNITS, Status, Supervisor


class Sequencer(Component):
    """Runs programs: fetches and checks words, issues instructions to the units, counts cycles.

    Words pass ``ProgramReader`` and ``Dispatch``, and the ``Issue`` of their unit.

    Parameters
    ----------
    config : Config
        Sizes of the core.

    Members
    -------
    load, store, matrix, vector : In(streams.UnitPorts)
        The units.
    request, beats : Out(stream of ``streams.burst``), In(stream of ``read_beat``)
        Client of ``ReadMaster`` for the program.
    start, reset, clear_counters : In(1)
        Strobes of the register ``control``.
    program_address, program_length, watchdog : In(ADDRESS_BITS), In(32), In(32)
        Host registers.
    status : Out(Status)
        State of the core, as in ``Supervisor``.
    counter_address, counter_value, cycles : In, Out(32), Out(32)
        ``address``, ``value`` and ``cycles`` of ``Counters``.

    Timing
    ------
    One word a cycle. A unit is offered an instruction 10 cycles after the beat with its GO, and one
    cycle more for each word of the beat before GO, if queue and semaphores let it.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        self.supervisor = Supervisor()
        self.program = ProgramReader(config=config)
        self.dispatch = Dispatch()
        self.faults = Faults()
        self.semaphores = Semaphores(count=SEMAPHORES, units=UNITS)
        self.issues = {unit: Issue(config=config, unit=unit) for unit in EXECUTORS}
        burst = streams.burst(length_bits=length_bits(config.burst_beats))
        self.request = Out(stream.Signature(burst))
        self.beats = In(stream.Signature(read_beat(config.bus_bytes)))
        self.start = In(1)
        self.reset = In(1)
        self.clear_counters = In(1)
        self.program_address = In(ADDRESS_BITS)
        self.program_length = In(32)
        self.watchdog = In(32)
        self.status = Out(Status())
        self.counter_address = In(range(UNITS * COUNTERS_PER_UNIT))
        self.counter_value = Out(32)
        self.cycles = Out(32)
        for unit, opcodes in EXECUTORS.items():
            setattr(self, unit.name.lower(), In(streams.UnitPorts(streams.issued(*opcodes))))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        supervisor, program, faults = self.supervisor, self.program, self.faults
        m.submodules.supervisor = supervisor
        m.submodules.program = program
        m.submodules.dispatch = self.dispatch
        m.submodules.faults = faults
        # The counts of the program before; the first word comes later than this.
        begun = delayed(m, supervisor.begin, 1, name="begun")[-1]
        m.submodules.semaphores = ResetInserter(begun)(self.semaphores)
        wiring.connect(m, supervisor.status, wiring.flipped(self.status))
        self._connect_program(m)
        for unit in self.issues:
            self._connect_unit(m, unit)
        self._connect_semaphores(m)
        self._count(m)
        m.d.comb += [
            faults.running.eq(supervisor.running),
            faults.fault.eq(program.fault),
            faults.code.eq(program.code),
            faults.index.eq(program.index),
            faults.overflow.eq(self.semaphores.overflow),
            supervisor.fault_valid.eq(faults.fault_valid),
            supervisor.codes.eq(faults.codes),
            supervisor.indices.eq(faults.indices),
            supervisor.named.eq(faults.named),
            supervisor.stuck_unit.eq(faults.stuck_unit),
            supervisor.start.eq(self.start),
            supervisor.reset.eq(self.reset),
            supervisor.watchdog.eq(self.watchdog),
            supervisor.halted.eq(self.dispatch.halted),
        ]
        return m

    def _connect_program(self, m: Module) -> None:
        """Connect the program reader with its client of the bus, and with the dispatcher."""
        supervisor, program, dispatch = self.supervisor, self.program, self.dispatch
        wiring.connect(m, wiring.flipped(self.request), program.request)
        wiring.connect(m, program.beats, wiring.flipped(self.beats))
        m.d.comb += [
            program.begin.eq(supervisor.begin),
            program.flush.eq(supervisor.flush),
            program.address.eq(self.program_address),
            program.length.eq(self.program_length),
            program.stop.eq(~supervisor.fetching),
            supervisor.fetch_idle.eq(program.idle),
            dispatch.i.valid.eq(program.o.valid & supervisor.granting),
            dispatch.i.payload.eq(program.o.payload),
            # Words that leave while no program runs are dropped; a flush precedes the next program.
            program.o.ready.eq(dispatch.i.ready),
        ]

    def _connect_unit(self, m: Module, unit: isa.Unit) -> None:
        """Connect a unit with its ``Issue``, and its faults."""
        name, number = unit.name.lower(), unit.value
        port, issue, faults = getattr(self, name), self.issues[unit], self.faults
        m.submodules[f"issue_{name}"] = issue
        wiring.connect(m, getattr(self.dispatch, f"push_{name}"), issue.push)
        wiring.connect(m, issue.instruction, wiring.flipped(port.instruction))
        # A unit that has failed is not done, so that HALT waits: a cycle more is early enough.
        failed = delayed(m, port.fault_valid, 1, name=f"{name}_failed")[-1]
        fault = delayed(m, port.fault, 1, name=f"{name}_fault", reset_less=True)[-1]
        m.d.comb += [
            issue.flush.eq(self.supervisor.flush),
            port.abort.eq(self.supervisor.abort),
            issue.done.eq(port.done),
            issue.fault_valid.eq(failed),
            issue.fault.eq(fault),
            issue.unit_activity.eq(port.activity),
            issue.overflow.eq(self.semaphores.overflow[number]),
            faults.of_unit[number].eq(failed),
            faults.units[number].eq(fault),
            faults.waiting[number].eq(issue.waiting),
            faults.issued[number].eq(issue.index),
        ]

    def _connect_semaphores(self, m: Module) -> None:
        """Connect the semaphores with what takes and posts them."""
        semaphores = self.semaphores
        for unit, taker in {isa.Unit.SEQUENCER: self.dispatch, **self.issues}.items():
            number = unit.value
            # The dispatcher gets no word while no program runs.
            runs = self.supervisor.granting if unit in self.issues else 1
            m.d.comb += [
                semaphores.requesting[number].eq(taker.requesting & runs),
                semaphores.want[number].eq(taker.want),
                semaphores.post[number].eq(taker.post),
                taker.granted.eq(semaphores.granted[number]),
                taker.lacking.eq(semaphores.lacking),
            ]

    def _count(self, m: Module) -> None:
        """Count cycles by activity; find out if the units are idle, and if something moves."""
        supervisor, dispatch = self.supervisor, self.dispatch
        ports = [getattr(self, unit.name.lower()) for unit in self.issues]
        m.submodules.counters = counters = Counters(
            units=UNITS,
            counts=self.config.counts,
            in_luts=self.config.counters == "luts",
            primitive=self.config.primitive,
        )
        for unit, taker in {isa.Unit.SEQUENCER: dispatch, **self.issues}.items():
            m.d.comb += counters.activities[unit.value].eq(taker.activity)
        # As in the activities, but without what a unit waits for.
        busy = Signal(len(ports))
        leads = counters.activities[isa.Unit.SEQUENCER.value] == Activity.BUSY
        idle = Cat(port.idle for port in ports).all()
        waiting = Cat(issue.waiting for issue in self.issues.values()).any()
        m.d.sync += [
            # All classes are one cycle late.
            counters.enable.eq(supervisor.running),
            busy.eq(Cat(port.activity == Activity.BUSY for port in ports)),
            supervisor.moved.eq(Cat(busy, leads, *(port.done for port in ports)).any()),
            # One cycle late, which is safe: a unit that takes an instruction in that cycle has no
            # burst on the bus before a reset; and FENCE and HALT wait longer than this after the
            # last push.
            supervisor.units_idle.eq(idle),
            dispatch.quiet.eq(idle & ~waiting),
        ]
        m.d.comb += [
            self.cycles.eq(counters.cycles),
            counters.clear.eq(self.clear_counters),
            counters.address.eq(self.counter_address),
            self.counter_value.eq(counters.value),
        ]
