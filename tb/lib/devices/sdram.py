"""Model of an SDRAM chip (single data rate, 16 data pins, four banks) that checks its controller.

Written from data sheets alone, independent of the controller. Every breach of a rule raises
:class:`SdramError`, which names the rule and the cycle.
"""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from devices.sdram_sheet import Sheet

_NANOSECONDS = 10**9
#: No event yet: longer ago than any time that is checked.
_NEVER = -(1 << 60)


class Command(IntEnum):
    """Levels of ``ras_n``, ``cas_n``, ``we_n``, from the left, while ``cs_n`` is low."""

    MODE = 0
    REFRESH = 1
    PRECHARGE = 2
    ACTIVATE = 3
    WRITE = 4
    READ = 5
    STOP = 6
    NOP = 7


class SdramError(AssertionError):
    """A rule of the data sheet was broken.

    ``rule``: its name, such as ``tRCD``; ``cycle``: the clock edge, counted from power-up.
    """

    def __init__(self, rule: str, cycle: int, message: str) -> None:
        super().__init__(f"{rule} in cycle {cycle}: {message}")
        self.rule = rule
        self.cycle = cycle


@dataclass(frozen=True)
class Levels:
    """Levels of the chip's pins at a rising clock edge; ``oe`` is 1 if the controller drives."""

    cke: int
    cs_n: int
    ras_n: int
    cas_n: int
    we_n: int
    ba: int
    a: int
    dqm: int
    dq: int
    oe: int


#: No command.
IDLE = Levels(cke=1, cs_n=1, ras_n=1, cas_n=1, we_n=1, ba=0, a=0, dqm=3, dq=0, oe=0)


class _Bank:
    """State of one bank: open row, and the cycles of its last events."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.activated = _NEVER
        self.precharged = _NEVER
        self.written = _NEVER


@dataclass
class _Burst:
    """Burst under way: its first word, and the number of words done."""

    bank: int
    row: int
    column: int
    done: int = 0


class SdramChip:
    """The chip, edge by edge.

    ``sheet``: its data sheet; ``clock_hz``: its clock; ``postponed``: refreshes that may be overdue
    at any time.
    ``content``: all bytes, at byte address ``((row · 4 + bank) · columns + column) ·
    2``; ``cycle``: rising edges so far; ``commands``: how often each was given; ``data_cycles``:
    edges with a word on the data pins, in either direction; ``longest_refresh_gap``: most cycles
    between two refreshes after start-up.
    """

    def __init__(self, sheet: Sheet, *, clock_hz: int, postponed: int = 8) -> None:
        self.sheet = sheet
        self.clock_hz = clock_hz
        self.postponed = postponed
        self.content = bytearray(8 << (sheet.row_bits + sheet.column_bits))
        self.cycle = 0
        self.commands: Counter[Command] = Counter()
        self.data_cycles = 0
        self.longest_refresh_gap = 0
        self.burst_words = 0
        self.cas_latency = 0
        self._banks = [_Bank() for _ in range(4)]
        self._activated = _NEVER
        self._mode_set = _NEVER
        self._refreshed = _NEVER
        self._refreshes: list[int] = []
        self._in_use = False
        self._in_use_since = 0
        self._owed_from = 0
        self._write: _Burst | None = None
        self._read: _Burst | None = None
        # Words on their way out, by the edge at which they are on the pins.
        self._out: dict[int, tuple[int, int]] = {}
        self._masks: dict[int, int] = {}
        self._drove = _NEVER
        self._was_driven = _NEVER
        self._handlers = {
            Command.MODE: self._on_mode,
            Command.REFRESH: self._on_refresh,
            Command.PRECHARGE: self._on_precharge,
            Command.ACTIVATE: self._on_activate,
            Command.WRITE: self._on_write,
            Command.READ: self._on_read,
            Command.STOP: self._on_stop,
        }

    @property
    def refresh_cycles(self) -> float:
        """Cycles between two refreshes on average, at most."""
        return self.sheet.t_ref * self.clock_hz / _NANOSECONDS / self.sheet.refreshes

    def idle(self, cycles: int) -> None:
        """Let ``cycles`` edges pass without commands; no burst may be under way."""
        for _ in range(min(cycles, 32)):
            self.step(IDLE)
        self.cycle += max(cycles - 32, 0)
        self._check_refresh()

    def step(self, pins: Levels) -> int | None:
        """Take one rising edge; return the word on the data pins at the next, None for no word."""
        self.cycle += 1
        self._check_refresh()
        self._check_pins(pins)
        command = Command(pins.ras_n << 2 | pins.cas_n << 1 | pins.we_n)
        if not pins.cs_n and command != Command.NOP:
            self._require("CKE", bool(pins.cke), f"{command.name} while the clock is off")
            self._require(
                "startup",
                self._passed(0, self.sheet.t_startup),
                f"{command.name} before {self.sheet.t_startup} ns have passed",
            )
            self.commands[command] += 1
            self._handlers[command](pins)
        self._advance_write(pins)
        self._advance_read()
        self._masks[self.cycle] = pins.dqm
        self._masks.pop(self.cycle - 3, None)
        return self._word_out()

    def _require(self, rule: str, holds: bool, message: str) -> None:
        if not holds:
            raise SdramError(rule, self.cycle, message)

    def _passed(self, since: int, time_ns: int, clocks: int = 0) -> bool:
        cycles = self.cycle - since
        return cycles * _NANOSECONDS >= time_ns * self.clock_hz and cycles >= clocks

    def _require_time(self, rule: str, since: int, time_ns: int, clocks: int = 0) -> None:
        if not self._passed(since, time_ns, clocks):
            wanted = f"{time_ns} ns" + (f" and {clocks} clocks" if clocks else "")
            self._require(rule, False, f"wanted {wanted}, got {self.cycle - since} clocks")

    def _check_pins(self, pins: Levels) -> None:
        """Check that only one side drives the data pins, with a pause at each change of sides."""
        drives = self.cycle in self._out
        self._require("contention", not (drives and pins.oe), "both sides drive the data pins")
        if pins.oe:
            self._require("tHZ", self._drove < self.cycle - 1, "driven right after the chip's word")
            self._was_driven = self.cycle
        if drives:
            self._require("tLZ", self._was_driven < self.cycle - 1, "word right after being driven")
            self._drove = self.cycle
            del self._out[self.cycle]

    def _check_refresh(self) -> None:
        if not self._in_use:
            return
        overdue = (self.cycle - self._owed_from) / self.refresh_cycles - len(self._refreshes)
        self._require(
            "tREFI", overdue <= self.postponed + 1, f"{overdue:.1f} refreshes are overdue"
        )

    def _require_ready(self) -> None:
        """Check the times since events of all banks: a mode set, a refresh."""
        self._require_time("tMRD", self._mode_set, self.sheet.t_mrd, self.sheet.t_mrd_clocks)
        self._require_time("tRFC", self._refreshed, self.sheet.t_rfc)

    def _require_idle(self, command: str) -> None:
        self._require_ready()
        for number, bank in enumerate(self._banks):
            self._require("bank state", bank.row is None, f"{command}, bank {number} is open")
            self._require("startup", bank.precharged != _NEVER, f"{command} before a precharge")
            self._require_time("tRP", bank.precharged, self.sheet.t_rp)
            self._require_time("tRC", bank.activated, self.sheet.t_rc)

    def _on_mode(self, pins: Levels) -> None:
        self._require_idle("mode set")
        self._require("mode", pins.a >> 7 == 0 and pins.a & 8 == 0 and pins.ba == 0, f"{pins.a:#x}")
        burst, latency = pins.a & 7, pins.a >> 4 & 7
        self._require("mode", burst <= 3, f"burst length code {burst}")
        self._require("mode", latency in self.sheet.t_ck, f"CAS latency {latency}")
        fast = self.clock_hz * self.sheet.t_ck[latency] > _NANOSECONDS
        self._require("tCK", not fast, f"{self.clock_hz} Hz at CAS latency {latency}")
        self.burst_words, self.cas_latency = 1 << burst, latency
        self._mode_set = self.cycle

    def _on_refresh(self, pins: Levels) -> None:
        self._require_idle("refresh")
        if self._in_use and self._refreshes:
            gap = self.cycle - self._refreshed
            self.longest_refresh_gap = max(self.longest_refresh_gap, gap)
        if len(self._refreshes) >= self.sheet.refreshes:
            first = self._refreshes[-self.sheet.refreshes]
            in_time = (self.cycle - first) * _NANOSECONDS <= self.sheet.t_ref * self.clock_hz
            self._require("tREF", in_time, f"{self.sheet.refreshes} refreshes take too long")
        self._refreshes.append(self.cycle)
        self._refreshed = self.cycle

    def _on_activate(self, pins: Levels) -> None:
        bank = self._banks[pins.ba]
        self._require("bank state", bank.row is None, f"activate, bank {pins.ba} is open")
        self._require_ready()
        self._require_time("tRP", bank.precharged, self.sheet.t_rp)
        self._require_time("tRC", bank.activated, self.sheet.t_rc)
        self._require_time("tRRD", self._activated, self.sheet.t_rrd)
        if not self._in_use:
            started = self._mode_set != _NEVER and len(self._refreshes) >= 2
            self._require("startup", started, "activate before mode set and two refreshes")
            self._in_use = True
            self._refreshes.clear()
            self._owed_from = self.cycle
        self._require("address", pins.a < 1 << self.sheet.row_bits, f"row {pins.a}")
        bank.row = pins.a
        bank.activated = self._activated = self.cycle

    def _on_precharge(self, pins: Levels) -> None:
        self._require_ready()
        for number, bank in enumerate(self._banks):
            if not (pins.a >> 10 & 1 or pins.ba == number):
                continue
            if bank.row is not None:
                self._require_time("tRAS", bank.activated, self.sheet.t_ras)
                self._require_time("tWR", bank.written, self.sheet.t_wr, self.sheet.t_wr_clocks)
                open_ns = (self.cycle - bank.activated) * _NANOSECONDS / self.clock_hz
                self._require("tRAS max", open_ns <= self.sheet.t_ras_max, f"open for {open_ns} ns")
                self._require_complete(number)
                bank.row = None
                bank.precharged = self.cycle
            elif bank.precharged == _NEVER:
                bank.precharged = self.cycle

    def _require_complete(self, number: int) -> None:
        """A precharge may not cut a burst: the strictest sheets want CL + BL - 2 after a read."""
        for rule, burst in (("tWR", self._write), ("read cut", self._read)):
            cut = burst is not None and burst.bank == number
            self._require(rule, not cut, f"precharge of bank {number} during its burst")
        late = any(n > self.cycle + 1 and bank == number for n, (_, bank) in self._out.items())
        self._require("read cut", not late, f"precharge of bank {number} before its last word")

    def _column(self, pins: Levels) -> _Burst:
        bank = self._banks[pins.ba]
        if bank.row is None:
            raise SdramError("bank state", self.cycle, f"column command, bank {pins.ba} is closed")
        self._require_time("tRCD", bank.activated, self.sheet.t_rcd)
        self._require("address", not pins.a >> 10, "auto precharge is not modelled")
        self._require("address", pins.a < 1 << self.sheet.column_bits, f"column {pins.a}")
        self._write = self._read = None
        return _Burst(pins.ba, bank.row, pins.a)

    def _on_write(self, pins: Levels) -> None:
        self._write = self._column(pins)
        late = [edge for edge in self._out if edge >= self.cycle]
        self._require("contention", not late, "write while words are read")

    def _on_read(self, pins: Levels) -> None:
        self._read = self._column(pins)
        for edge in [edge for edge in self._out if edge >= self.cycle + self.cas_latency]:
            del self._out[edge]

    def _on_stop(self, pins: Levels) -> None:
        self._write = self._read = None

    def _address(self, burst: _Burst) -> int:
        inside = self.burst_words - 1
        column = burst.column & ~inside | (burst.column + burst.done) & inside
        return ((burst.row * 4 + burst.bank << self.sheet.column_bits) + column) * 2

    def _advance_write(self, pins: Levels) -> None:
        burst = self._write
        if burst is None:
            return
        self._require("write data", bool(pins.oe), "nobody drives the data pins")
        address = self._address(burst)
        for lane in range(2):
            if not pins.dqm >> lane & 1:
                self.content[address + lane] = pins.dq >> 8 * lane & 0xFF
        self._banks[burst.bank].written = self.cycle
        self.data_cycles += 1
        burst.done += 1
        if burst.done == self.burst_words:
            self._write = None

    def _advance_read(self) -> None:
        burst = self._read
        if burst is None:
            return
        address = self._address(burst)
        word = int.from_bytes(self.content[address : address + 2], "little")
        self._out[self.cycle + self.cas_latency] = (word, burst.bank)
        burst.done += 1
        if burst.done == self.burst_words:
            self._read = None

    def _word_out(self) -> int | None:
        """Return the word at the next edge, which the mask of the edge before this one may hide."""
        if self.cycle + 1 not in self._out:
            return None
        if self._masks.get(self.cycle - 1, 0):
            del self._out[self.cycle + 1]
            return None
        self.data_cycles += 1
        return self._out[self.cycle + 1][0]

    async def serve(self, ctx: Any, pins: Any, *, delay: int = 0) -> None:
        """Act as the chip at ``pins``, endlessly: a background bench.

        Without a word, the data pins show values that no test writes.
        ``ctx``: of a test bench in ``sync``; ``pins``: the controller's pins, named as in its
        signature; ``delay``: cycles by which words come late.
        """
        names = ("cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq_o", "dq_oe")
        late: list[int | None] = [None] * delay
        async for _, _, *levels in ctx.tick().sample(*(getattr(pins, name) for name in names)):
            late.append(self.step(Levels(*levels)))
            word = late.pop(0)
            ctx.set(pins.dq_i, _noise(self.cycle) if word is None else word)


def _noise(cycle: int) -> int:
    """Return a word that changes from cycle to cycle."""
    return (cycle * 40503 ^ 0x5A5A) & 0xFFFF
