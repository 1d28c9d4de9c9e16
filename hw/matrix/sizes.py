"""Sizes that the blocks of the matrix unit share."""

from dataclasses import dataclass

from celosia.hw.lib.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class MatrixSizes(Sizes):
    """Sizes of a matrix unit, see ``Config``, and what derives from them."""

    rows: int
    columns: int
    unified_bytes: int
    weight_tiles: int
    accumulator_depth: int
    bus_bytes: int
    weight_rows: int = 1
    dsp_columns: int = 0
    cells: str = "portable"
    parity: bool = False
    forwards: bool = True
    skid: bool = True
    serial_skips: bool = False
    activation_weights: bool = False

    @property
    def blocks(self) -> int:
        """Passes of the longest MOVE_WEIGHTS; 0 if there is none."""
        return -(-self.columns // self.rows) if self.activation_weights else 0

    @property
    def taps_bits(self) -> int:
        """Width of a number of taps, up to those of all tiles."""
        return (self.weight_tiles * self.rows).bit_length()

    @property
    def tile(self) -> dict[str, int]:
        """Sizes of the payloads of writes to the weight buffer."""
        names = ("rows", "columns", "weight_tiles", "bus_bytes")
        return {name: getattr(self, name) for name in names}
