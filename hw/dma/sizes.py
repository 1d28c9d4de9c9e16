"""Sizes that the blocks of the load unit share, and those of the store unit."""

from dataclasses import dataclass

from amaranth.hdl import Shape, unsigned
from amaranth.lib import data

from celosia.hw import streams
from celosia.hw.arch.config import PARAMETER_BYTES, TABLE_BYTES
from celosia.hw.lib.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class LoadSizes(Sizes):
    """Sizes of a load unit, see ``Config``, and what derives from them."""

    rows: int
    columns: int
    unified_bytes: int
    weight_tiles: int
    parameter_channels: int
    table_slots: int
    bus_bytes: int
    burst_beats: int
    outstanding: int

    @property
    def tile_blocks(self) -> int:
        """Beats of a row of a tile."""
        return -(-self.columns // self.bus_bytes)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile in external memory."""
        return self.rows * self.tile_blocks * self.bus_bytes

    @property
    def channel_bytes(self) -> int:
        """Bytes of the parameters of all channels."""
        return self.parameter_channels * PARAMETER_BYTES

    @property
    def table_bytes(self) -> int:
        """Bytes of all tables."""
        return self.table_slots * TABLE_BYTES

    @property
    def write(self) -> data.StructLayout:
        """Payload of a write to the unified buffer."""
        return streams.unified_write(rows=self.rows, unified_bytes=self.unified_bytes)

    @property
    def extent_bits(self) -> int:
        """Width in bits of the length of a row in bytes, less one."""
        longest = (self.unified_bytes, self.tile_bytes, self.channel_bytes, self.table_bytes)
        return (max(longest) - 1).bit_length()

    @property
    def local_bits(self) -> int:
        """Width in bits of a local address."""
        address = self.write["address"].width
        return max(address, self.extent_bits, self.weight_tiles.bit_length())


@dataclass(frozen=True, kw_only=True)
class StoreSizes(Sizes):
    """Sizes of a store unit, see ``Config``, and what derives from them."""

    rows: int
    unified_bytes: int
    bus_bytes: int
    burst_beats: int
    parity: bool = False
    skid: bool = True

    @property
    def tag(self) -> Shape:
        """Tag of a burst: a byte of wrong parity may be that of a later instruction."""
        return unsigned(streams.TAG_BITS * self.parity)
