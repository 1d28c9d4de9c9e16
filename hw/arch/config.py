"""Sizes of a core: one frozen dataclass and its derived sizes."""

import binascii
from dataclasses import asdict, dataclass
from functools import cached_property

from celosia.hw.notebook import html_table

#: Registers of a program's external representation that no configuration changes.
ADDRESS_BITS = 32
#: Programs are fetched in blocks of so many bytes, and begin with one.
PROGRAM_BYTES = 64
PARAMETER_BYTES = 16
TABLE_BYTES = 256
#: Exponentials that SOFTMAX looks up, int32, as tables after the last.
EXPONENTIAL_TABLES = 4
#: Most rows of one SOFTMAX, and most elements of a row: sums of exponentials must fit 28 bits.
SOFTMAX_ROWS = 64
SOFTMAX_ELEMENTS = 511
#: One for each ordered pair of the units that have a queue.
SEMAPHORES = 12
#: Greatest count of a semaphore. Compiled networks need at most 61 at a time.
MOST_COUNT = 255

#: Cycles from the read of a sum that a pass adds to until the result can be read.
ADD_CYCLES = 4

#: Most instructions that may wait in the queue of one unit.
MOST_QUEUED = 8
#: Bits of a tag: the number of an instruction among those of its unit since the last reset, modulo
#: 2**TAG_BITS.
TAG_BITS = 4

#: Cells of the array. ``portable`` leaves the choice of multiplier to synthesis; ``ecp5`` is one
#: MULT18X18D. The pairs share one multiplier between two columns: a portable one, a MULT18X18D,
#: or an SB_MAC16 of an iCE40.
CELLS = ("portable", "ecp5", "pair", "ecp5_pair", "ice40_pair")

#: Protection of the words of the memories.
PROTECTIONS = ("none", "parity")

#: Requantisers, with the cycles from one group of channels to the next. The sequential one needs
#: no multipliers and little area: it works digit by digit.
REQUANTIZERS = {"pipelined": 1, "sequential": 23}

#: Registers between an address generator and the port it requests from, and before the beats of the
#: bus: skid buffers, or plain registers of half the area, through which ``ready`` passes.
LINKS = ("skid", "register")

#: How the matrix unit finds the rows that its lanes skip: all at once; or one after the other, with
#: the logic of one lane, in as many cycles as a tile takes that loads one row a cycle. The link of
#: the matrix unit is then a plain register.
SKIPS = ("parallel", "serial")

#: Activity counters: one for each unit and activity, in block memories or in LUTs, or none besides
#: the counter of cycles.
COUNTED = ("units", "luts", "none")


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of one core.

    Parameters
    ----------
    name : str
        Name of the preset; not part of the fingerprint.
    rows : int
        Rows of the array: taps of one reduction step, and byte banks of the unified buffer.
        A power of two, at least 4.
    columns : int
        Columns of the array: output channels of one tile.
    unified_bytes : int
        Bytes of the unified buffer, a multiple of ``rows``.
    weight_tiles : int
        Tiles of ``rows`` × ``columns`` bytes that the weight buffer holds.
    accumulator_depth : int
        Rows of ``columns`` int32 sums in each of the two halves, a power of two.
    lanes : int
        Channels that the vector unit finishes at once, every ``group_cycles``. Divides
        ``columns``, at most ``rows``, a power of two.
    weight_rows : int
        Rows of a tile that load per cycle. Divides ``rows``.
    bus_bytes : int
        Bytes of one beat of the AXI4 master, a power of two between 4 and ``rows``.
    parameter_channels : int
        Channels of the parameter memory, a multiple of ``lanes``.
    tables : int
        Tables of 256 entries, at least 1.
    queue_depth : int
        Instructions that wait in the queue of one unit, 3 to 8.
    burst_beats : int
        Longest burst in beats, a power of two up to 256, and of at most 4096 bytes.
    outstanding : int
        Outstanding read bursts.
    dsp_columns : int
        Columns of the array whose cells may use hardware multipliers. The cells of the others
        multiply in logic.
    cells : str
        Kind of the cells that may use hardware multipliers, one of ``CELLS``. It also selects the
        multipliers of the requantiser, see ``primitive``.
    protection : str
        Protection of the words of the memories against bits that flip, one of ``PROTECTIONS``.
    requantizer : str
        Requantiser of the vector unit, one of ``REQUANTIZERS``.
    links : str
        Registers between blocks, one of ``LINKS``.
    skips : str
        Logic for the skips of a MATMUL, one of ``SKIPS``.
    counters : str
        Activity counters, one of ``COUNTED``.
    activation_weights : bool
        The core runs MOVE_WEIGHTS, which fills weight tiles from the unified buffer.
    softmax : bool
        The core runs SOFTMAX. Only without ``protection``, and with the pipelined requantiser.
    elementwise_products : bool
        VECTOR has the modes MULTIPLY, which multiplies accumulators by its results, and
        SQUARED_DIFFERENCE, which squares the differences of both.

    Raises
    ------
    ValueError
        If a size is outside the range above.
    """

    name: str = "custom"
    rows: int
    columns: int
    unified_bytes: int
    weight_tiles: int
    accumulator_depth: int
    lanes: int
    weight_rows: int = 1
    bus_bytes: int
    parameter_channels: int
    tables: int = 1
    queue_depth: int = 4
    burst_beats: int = 16
    outstanding: int = 32
    dsp_columns: int = 0
    cells: str = "portable"
    protection: str = "none"
    requantizer: str = "pipelined"
    links: str = "skid"
    skips: str = "parallel"
    counters: str = "units"
    activation_weights: bool = False
    softmax: bool = False
    elementwise_products: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that no core can have."""

        def want(holds: bool, field: str, allowed: str) -> None:
            if not holds:
                raise ValueError(f"{field}: wanted {allowed}, got {getattr(self, field)!r}")

        want(_is_power_of_two(self.rows) and self.rows >= 4, "rows", "a power of two, at least 4")
        want(self.columns >= 1, "columns", "at least 1")
        want(
            self.unified_bytes >= 8 * self.rows and self.unified_bytes % self.rows == 0,
            "unified_bytes",
            f"a multiple of rows = {self.rows}, at least {8 * self.rows}",
        )
        want(
            self.unified_bytes >= self.accumulator_rows,
            "unified_bytes",
            f"at least as many as rows of sums, {self.accumulator_rows}",
        )
        want(self.weight_tiles >= 2, "weight_tiles", "at least 2")
        want(
            _is_power_of_two(self.accumulator_depth) and self.accumulator_depth >= 4,
            "accumulator_depth",
            "a power of two, at least 4",
        )
        want(
            _is_power_of_two(self.lanes)
            and self.lanes <= self.rows
            and self.columns % self.lanes == 0,
            "lanes",
            f"a power of two, at most rows = {self.rows}, dividing columns = {self.columns}",
        )
        want(
            self.weight_rows >= 1 and self.rows % self.weight_rows == 0,
            "weight_rows",
            f"a divisor of rows = {self.rows}",
        )
        want(
            _is_power_of_two(self.bus_bytes) and 4 <= self.bus_bytes <= self.rows,
            "bus_bytes",
            f"a power of two from 4 to rows = {self.rows}",
        )
        want(
            self.bus_bytes <= PARAMETER_BYTES * self.lanes,
            "bus_bytes",
            f"at most {PARAMETER_BYTES} bytes for each of lanes = {self.lanes}",
        )
        want(
            self.parameter_channels >= self.lanes and self.parameter_channels % self.lanes == 0,
            "parameter_channels",
            f"a multiple of lanes = {self.lanes}",
        )
        want(1 <= self.tables <= 256, "tables", "1 to 256")
        for field, most in _ADDRESSABLE.items():
            want(
                getattr(self, field) <= most, field, f"at most {most}, which instructions can name"
            )
        want(3 <= self.queue_depth <= MOST_QUEUED, "queue_depth", f"3 to {MOST_QUEUED}")
        want(
            _is_power_of_two(self.burst_beats)
            and self.burst_beats <= 256
            and self.burst_beats * self.bus_bytes <= 4096,
            "burst_beats",
            "a power of two up to 256, and a burst of at most 4096 bytes",
        )
        want(self.outstanding >= 2, "outstanding", "at least 2")
        want(0 <= self.dsp_columns <= self.columns, "dsp_columns", "0 to columns")
        want(self.cells in CELLS, "cells", f"one of {', '.join(CELLS)}")
        want(self.protection in PROTECTIONS, "protection", f"one of {', '.join(PROTECTIONS)}")
        want(self.requantizer in REQUANTIZERS, "requantizer", f"one of {', '.join(REQUANTIZERS)}")
        want(self.links in LINKS, "links", f"one of {', '.join(LINKS)}")
        want(self.skips in SKIPS, "skips", f"one of {', '.join(SKIPS)}")
        want(self.counters in COUNTED, "counters", f"one of {', '.join(COUNTED)}")
        for option in ("activation_weights", "softmax", "elementwise_products"):
            want(isinstance(getattr(self, option), bool), option, "True or False")
        want(not (self.softmax and self.parity), "protection", "none on a core with softmax")
        want(
            not self.softmax or self.group_cycles == 1,
            "requantizer",
            "pipelined on a core with softmax",
        )

    def _repr_html_(self) -> str:
        title = f"{self.name}: {self.rows} × {self.columns} multipliers"
        return html_table(title, [(k, v) for k, v in asdict(self).items() if k != "name"])

    @property
    def primitive(self) -> str:
        """Multipliers and carry chains of the part, see ``celosia.hw.targets.product``."""
        return {"ecp5": "ecp5", "ice40": "logic"}.get(self.cells.partition("_")[0], "portable")

    @property
    def lut_memories(self) -> bool:
        """True if the FPGA family of ``cells`` has memories in LUTs."""
        return self.cells.startswith("ecp5")

    @property
    def in_flight(self) -> int:
        """Instructions that a unit may have taken and not finished.

        They, those in its queue, the one on offer and the next one have different tags.
        """
        return (1 << TAG_BITS) - self.queue_depth - 2

    @property
    def program_blocks(self) -> int:
        """Blocks of ``PROGRAM_BYTES`` of a program that are requested ahead.

        A bus of four bytes moves one word a cycle, so two blocks cover the latency of memory.
        """
        return 2 if self.bus_bytes < 8 else 5

    @property
    def parity(self) -> bool:
        """True if words of memories carry parity, see ``celosia.hw.memory.parity``."""
        return self.protection == "parity"

    @property
    def skid(self) -> bool:
        """True if the registers of ``links`` are skid buffers."""
        return self.links == "skid"

    @property
    def serial_skips(self) -> bool:
        """True if ``skips`` are serial."""
        return self.skips == "serial"

    @property
    def counts(self) -> bool:
        """True if the core has activity counters."""
        return self.counters != "none"

    @property
    def table_slots(self) -> int:
        """Tables of 256 bytes that LOAD_PARAMS can write; the exponentials of SOFTMAX are four."""
        return self.tables + (EXPONENTIAL_TABLES if self.softmax else 0)

    @property
    def group_cycles(self) -> int:
        """Cycles in which the vector unit finishes one group of ``lanes`` channels."""
        return REQUANTIZERS[self.requantizer]

    @property
    def forwards(self) -> bool:
        """True if a pass of one pixel may add to a sum that is not in memory yet.

        A sum needs ``ADD_CYCLES``. Passes whose tiles load for as long gain nothing by it.
        """
        return self.rows // self.weight_rows < ADD_CYCLES

    @property
    def sum_bits(self) -> int:
        """Width in bits of the partial sums inside the array."""
        return 16 + (self.rows - 1).bit_length()

    @property
    def address_bits(self) -> int:
        """Width in bits of a byte address in the unified buffer."""
        return (self.unified_bytes - 1).bit_length()

    @property
    def unified_rows(self) -> int:
        """Words in each byte bank of the unified buffer."""
        return self.unified_bytes // self.rows

    @property
    def accumulator_rows(self) -> int:
        """Rows of both halves; the upper half starts at ``accumulator_depth``."""
        return 2 * self.accumulator_depth

    @property
    def groups(self) -> int:
        """Groups of ``lanes`` channels in one row of the accumulators."""
        return self.columns // self.lanes

    @property
    def read_groups(self) -> int:
        """Most groups of ``lanes`` channels in one read of the unified buffer by VECTOR."""
        return 1 << ((min(self.rows, self.columns) // self.lanes).bit_length() - 1)

    @property
    def tile_row_bytes(self) -> int:
        """Bytes from one row of a tile to the next in external memory, padded to whole beats."""
        return -(-self.columns // self.bus_bytes) * self.bus_bytes

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile in external memory."""
        return self.rows * self.tile_row_bytes

    def given(self) -> dict[str, int | str]:
        """Return the values of all fields but of options that are off."""
        return {key: value for key, value in asdict(self).items() if value is not False}

    # Configurations are keys of caches, several times for each instruction.
    @cached_property
    def _hash(self) -> int:
        """Hash, the same in every process."""
        return binascii.crc32(repr(sorted(asdict(self).items())).encode())

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def fingerprint(self) -> int:
        """32-bit number that a core and the programs built for it share."""
        sizes = {key: value for key, value in self.given().items() if key not in _NOT_IN_PROGRAMS}
        return binascii.crc32(repr(sorted(sizes.items())).encode())


#: Greatest sizes that the fields of the instructions can address.
_ADDRESSABLE = {
    "columns": (1 << 16) - 1,
    "unified_bytes": 1 << 25,
    "weight_tiles": (1 << 16) - 1,
    "accumulator_depth": 1 << 15,
    "parameter_channels": (1 << 16) - 1,
}

#: Fields that change neither the valid programs nor their results.
_NOT_IN_PROGRAMS = (
    "name",
    "weight_rows",
    "queue_depth",
    "burst_beats",
    "outstanding",
    "dsp_columns",
    "cells",
    "protection",
    "requantizer",
    "links",
    "skips",
    "counters",
)
