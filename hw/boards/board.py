"""A board: its part, core, clock and memory."""

from dataclasses import dataclass

from celosia.hw.arch.config import ADDRESS_BITS, Config
from celosia.hw.boards import pll
from celosia.hw.flow.parts import PARTS, Part
from celosia.hw.link.uart import divisor_of
from celosia.hw.sdram import timing
from celosia.hw.sdram.pads import PAD_CYCLES, Margins, margins
from celosia.hw.sdram.signature import check

#: Bits per second on the serial line, as the driver expects them.
BAUD = 3_000_000

#: Share of the memory's pins that long reads use, refreshes included: "Bandwidth" in
#: ``docs/reference/sdram.md``.
_SHARE = 0.985

#: Cycles from an address on AR to the read command, and from a whole beat to R: the same, Cycles.
_TO_READ, _TO_ANSWER = 10, 4


@dataclass(frozen=True, kw_only=True)
class Sdram:
    """The memory chip of a board and how it is driven, see ``docs/reference/sdram.md``.

    Parameters
    ----------
    part : str
        Name in ``hw/sdram/timing.py``.
    cas_latency, read_delay : int
        See ``SdramController``.
    clock_lead_ns : float
        By how much the chip's clock rises before that of the board.
    """

    part: str
    cas_latency: int = 3
    read_delay: int = PAD_CYCLES
    clock_lead_ns: float = 2.0


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board and the core on it.

    Parameters
    ----------
    name : str
        What the command line calls it.
    title : str
        Board and part in words.
    platform : str
        Who knows the pins: ``module:class`` of amaranth-boards, or ``celosia.constraints:file``
        where amaranth-boards has none.
    part : str
        Name in ``hw/flow/parts.py``.
    config : Config
        Sizes of the core on it.
    oscillator : str
        Resource of the oscillator.
    oscillator_hz, clock_hz : int
        Its frequency, and that of core, link and memory.
    sdram : Sdram
        External memory.
    loader : str
        What openFPGALoader calls the board.
    baud : int
        Of the serial line.
    high : tuple of str
        Resources whose pins are always high.
    """

    name: str
    title: str
    platform: str
    part: str
    config: Config
    oscillator: str
    oscillator_hz: int
    clock_hz: int
    sdram: Sdram
    loader: str
    baud: int = BAUD
    high: tuple[str, ...] = ()

    @property
    def fpga(self) -> Part:
        """Its part."""
        return PARTS[self.part]

    @property
    def chip(self) -> timing.Part:
        """Its memory chip."""
        return timing.PARTS[self.sdram.part]

    @property
    def memory_bytes(self) -> int:
        """Bytes of external memory."""
        return 1 << self.chip.address_bits

    @property
    def memory_latency(self) -> int:
        """Cycles from an address to the first beat, where another row of the bank is open."""
        times = self._times
        beat = times.cas_latency + self.config.bus_bytes // 2 + 1 + self.sdram.read_delay
        return _TO_READ + times.rp + times.rcd - 1 + beat + _TO_ANSWER

    @property
    def memory_bandwidth(self) -> float:
        """Beats of the core's bus for each cycle, of long bursts."""
        return _SHARE * 2 / self.config.bus_bytes

    @property
    def _times(self) -> timing.Timing:
        return timing.Timing.derive(
            self.chip, clock_hz=self.clock_hz, cas_latency=self.sdram.cas_latency
        )

    @property
    def margins(self) -> Margins:
        """Distance of commands to the memory and of words from it from their limits."""
        return margins(
            self.chip,
            clock_hz=self.clock_hz,
            cas_latency=self.sdram.cas_latency,
            clock_lead_ns=self.sdram.clock_lead_ns,
            read_delay=self.sdram.read_delay,
        )

    @property
    def divisor(self) -> int:
        """Cycles of a bit on the serial line.

        Raises
        ------
        ValueError
            If the clock does not divide into bits.
        """
        return divisor_of(self.clock_hz, self.baud)

    def check(self) -> None:
        """Refuse a board that cannot be, before anything takes time.

        Raises
        ------
        ValueError
            If oscillator, clock, line, core and memory do not go together.
        """
        limits = pll.LIMITS[self.fpga.family.name]
        pll.settings(limits, oscillator_hz=self.oscillator_hz, clock_hz=self.clock_hz)
        _ = self._times
        check(
            self.chip,
            data_bytes=self.config.bus_bytes,
            address_bits=ADDRESS_BITS,
            read_delay=self.sdram.read_delay,
        )
        divisor_of(self.clock_hz, self.baud)
        for what, margin in self.margins._asdict().items():
            if margin < 0:
                raise ValueError(
                    f"sdram: wanted {what} to be kept at {self.clock_hz} Hz, got {-margin:.1f} ns "
                    "too little: a slower clock, or another clock_lead_ns or read_delay in table.py"
                )
