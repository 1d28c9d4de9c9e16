"""The sequencer: joins program reader, dispatch, queues, semaphores, counters and supervisor."""

from amaranth.hdl import Cat, Module, ResetInserter
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.arch.config import ADDRESS_BITS, SEMAPHORES, Config
from celosia.hw.arch.registers import COUNTERS_PER_UNIT, Activity
from celosia.hw.axi.reader import length_bits, read_beat
from celosia.hw.lib.component import Component, drive
from celosia.hw.sequencer.counters import Counters
from celosia.hw.sequencer.dispatch import EXECUTORS, Dispatch
from celosia.hw.sequencer.faults import Faults
from celosia.hw.sequencer.issue import Issue
from celosia.hw.sequencer.program import ProgramReader
from celosia.hw.sequencer.semaphores import Semaphores
from celosia.hw.sequencer.supervisor import UNITS, Supervisor


class Sequencer(Component):
    """Runs programs: fetches and checks words, issues instructions to the units, counts cycles.

    Words pass ``ProgramReader`` and ``Dispatch``, and the ``Issue`` of their unit.

    Parameters
    ----------
    config : Config
        Sizes of the core.

    Members
    -------
    load, store, matrix, vector : In(Signature of ``streams.unit_ports``)
        The units.
    request, beats : Out(stream of ``streams.burst``), In(stream of ``read_beat``)
        Client of ``ReadMaster`` for the program.
    start, reset, clear_counters : In(1)
        Strobes of the register ``control``.
    program_address, program_length, watchdog : In(ADDRESS_BITS), In(32), In(32)
        Host registers.
    running, done, error, draining, code, unit, index, clear : Out
        As of ``Supervisor``.
    counter_address, counter_value, cycles : In, Out(32), Out(32)
        ``address``, ``value`` and ``cycles`` of ``Counters``.

    Timing
    ------
    One word a cycle. A unit is offered an instruction 8 cycles after the beat with its GO, and one
    cycle more for each word of the beat before GO, if queue and semaphores let it.
    """

    def __init__(self, *, config: Config) -> None:
        self.config = config
        burst = streams.burst(length_bits=length_bits(config.burst_beats))
        super().__init__(
            {
                **{
                    unit.name.lower(): In(
                        wiring.Signature(streams.unit_ports(streams.issued(*opcodes)))
                    )
                    for unit, opcodes in EXECUTORS.items()
                },
                "request": Out(stream.Signature(burst)),
                "beats": In(stream.Signature(read_beat(config.bus_bytes))),
                "start": In(1),
                "reset": In(1),
                "clear_counters": In(1),
                "program_address": In(ADDRESS_BITS),
                "program_length": In(32),
                "watchdog": In(32),
                "running": Out(1),
                "done": Out(1),
                "error": Out(1),
                "draining": Out(1),
                "code": Out(isa.Error),
                "unit": Out(isa.Unit),
                "index": Out(streams.INDEX_BITS),
                "clear": Out(1),
                "counter_address": In(range(UNITS * COUNTERS_PER_UNIT)),
                "counter_value": Out(32),
                "cycles": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.supervisor = supervisor = Supervisor()
        m.submodules.program = program = ProgramReader(config=self.config)
        m.submodules.dispatch = dispatch = Dispatch()
        m.submodules.faults = faults = Faults()
        semaphores = Semaphores(count=SEMAPHORES, units=UNITS)
        issues = {unit: Issue(config=self.config, unit=unit) for unit in EXECUTORS}
        m.submodules.semaphores = ResetInserter(supervisor.begin)(semaphores)
        self._program(m, supervisor, program, dispatch)
        for unit, issue in issues.items():
            m.submodules[f"issue_{unit.name.lower()}"] = issue
            self._unit(m, unit, issue, supervisor, dispatch, faults)
        self._semaphores(m, semaphores, supervisor, {isa.Unit.SEQUENCER: dispatch, **issues})
        self._count(m, supervisor, dispatch, issues)
        drive(m, faults, supervisor, "running")
        drive(m, faults, program, "fault code index")
        drive(m, faults, semaphores, "overflow")
        drive(m, supervisor, faults, "fault_valid codes indices stuck_unit")
        drive(m, supervisor, self, "start reset watchdog")
        drive(m, supervisor, dispatch, "halted")
        drive(m, self, supervisor, "running done error draining code unit index clear")
        # One cycle late, which is safe: a unit that takes an instruction in that cycle has no burst
        # on the bus before a reset; and FENCE and HALT wait longer than this after the last push.
        idle = Cat(getattr(self, unit.name.lower()).idle for unit in issues).all()
        waiting = Cat(issue.waiting for issue in issues.values()).any()
        m.d.sync += [supervisor.units_idle.eq(idle), dispatch.quiet.eq(idle & ~waiting)]
        return m

    def _program(
        self, m: Module, supervisor: Supervisor, program: ProgramReader, dispatch: Dispatch
    ) -> None:
        wiring.connect(m, wiring.flipped(self.request), program.request)
        wiring.connect(m, program.beats, wiring.flipped(self.beats))
        drive(m, program, supervisor, "begin flush")
        m.d.comb += [
            program.address.eq(self.program_address),
            program.length.eq(self.program_length),
            program.stop.eq(~supervisor.running),
            supervisor.fetch_idle.eq(program.idle),
            dispatch.i.valid.eq(program.o.valid & supervisor.granting),
            dispatch.i.payload.eq(program.o.payload),
            # Words that leave while no program runs are dropped; a flush precedes the next program.
            program.o.ready.eq(dispatch.i.ready),
        ]

    def _unit(
        self,
        m: Module,
        unit: isa.Unit,
        issue: Issue,
        supervisor: Supervisor,
        dispatch: Dispatch,
        faults: Faults,
    ) -> None:
        """Connect a unit with its ``Issue``, and its faults."""
        name, number = unit.name.lower(), unit.value
        port = getattr(self, name)
        wiring.connect(m, getattr(dispatch, f"push_{name}"), issue.push)
        wiring.connect(m, issue.instruction, wiring.flipped(port.instruction))
        drive(m, issue, supervisor, "flush")
        drive(m, port, supervisor, "abort")
        drive(m, issue, port, "done fault_valid fault")
        m.d.comb += [
            issue.unit_activity.eq(port.activity),
            faults.of_unit[number].eq(port.fault_valid),
            faults.units[number].eq(port.fault),
            faults.waiting[number].eq(issue.waiting),
            faults.issued[number].eq(issue.index),
        ]

    def _semaphores(
        self,
        m: Module,
        semaphores: Semaphores,
        supervisor: Supervisor,
        takers: dict[isa.Unit, Dispatch | Issue],
    ) -> None:
        for unit, taker in takers.items():
            number = unit.value
            # The dispatcher gets no word while no program runs.
            runs = supervisor.granting if isinstance(taker, Issue) else 1
            m.d.comb += [
                semaphores.asking[number].eq(taker.asking & runs),
                semaphores.want[number].eq(taker.want),
                semaphores.post[number].eq(taker.post),
                taker.granted.eq(semaphores.granted[number]),
                taker.lacking.eq(semaphores.lacking),
            ]
            if isinstance(taker, Issue):
                m.d.comb += taker.overflow.eq(semaphores.overflow[number])

    def _count(
        self,
        m: Module,
        supervisor: Supervisor,
        dispatch: Dispatch,
        issues: dict[isa.Unit, Issue],
    ) -> None:
        m.submodules.counters = counters = Counters(units=UNITS, counts=self.config.counts)
        # All classes are one cycle late, as those of ``Issue``.
        m.d.sync += counters.activities[isa.Unit.SEQUENCER.value].eq(dispatch.activity)
        for unit, issue in issues.items():
            m.d.comb += counters.activities[unit.value].eq(issue.activity)
        finished = [getattr(self, unit.name.lower()).done for unit in issues]
        busy = [counters.activities[number] == Activity.BUSY for number in range(UNITS)]
        m.d.sync += [
            counters.enable.eq(supervisor.running),
            supervisor.moved.eq(Cat(*busy, *finished).any()),
        ]
        drive(m, self, counters, "cycles")
        m.d.comb += [
            counters.clear.eq(self.clear_counters),
            counters.address.eq(self.counter_address),
            self.counter_value.eq(counters.value),
        ]
