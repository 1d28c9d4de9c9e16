"""Address generator of MATMUL and MOVE_WEIGHTS: pixels, pass by pass."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from celosia.hw.arch import isa
from celosia.hw.lib.comparison import above, below
from celosia.hw.lib.component import Component, In, Out
from celosia.hw.lib.fanout import COPY, data_registers
from celosia.hw.matrix.sizes import MatrixSizes

MATMUL = isa.LAYOUTS[isa.Opcode.MATMUL]


class PassAddresses(Component):
    """Address generator of the matrix unit: address, row and lane mask of each pixel of each pass.

    Each loop keeps the address at which its current round began. One adder is enough, because only
    the innermost loop that is not in its last round advances. Strides are smaller than the buffer,
    so with one more bit an address past the end is seen before it wraps.

    Parameters
    ----------
    sizes : MatrixSizes
        Sizes of the unit.

    Members
    -------
    idle : In(1)
        No instruction has begun, or its last pixel is on offer.
    begin : In(1)
        ``instruction`` may begin.
    instruction : In(layout of MATMUL)
        Fields, at the bits that MOVE_WEIGHTS has, too. ``TilePrefetcher`` has refused counts of
        twice ``accumulator_depth`` or more, and taps for more tiles than there are.
    advance : In(1)
        Goes to the next pixel. While ``idle``, that is the first one of ``instruction`` if it may
        begin; else nothing happens.
    address : Out(address_bits)
        Address of lane 0 in the unified buffer.
    row : Out(row_bits)
        Row of the accumulators; for MOVE_WEIGHTS, row of the weight buffer, R of them a tile.
    accumulate : Out(1)
        The pass adds to the row.
    mask : Out(rows)
        Lanes that have a tap.
    first, last : Out(1)
        First, last pixel of a pass.
    closing : Out(1)
        The pass is the last one.
    final : Out(1)
        Last pixel of the last pass.
    outside : Out(1)
        The address is outside the buffer, or the row in the other half of the accumulators, or
        after the last tile.
    move, block : Out(1), Out(range(blocks))
        With ``sizes.blocks``: the instruction is MOVE_WEIGHTS; number of the pass.

    Timing
    ------
    Outputs change in the cycle after ``advance``, which comes late and reaches enables only.
    """

    def __init__(self, *, sizes: MatrixSizes) -> None:
        self.sizes = sizes
        self.weight_rows = sizes.weight_tiles * sizes.rows
        self.address_bits = (sizes.unified_bytes - 1).bit_length() + 1
        self.row_bits = sizes.accumulator_depth.bit_length()
        if sizes.blocks:
            self.row_bits = max(self.row_bits, (self.weight_rows - 1).bit_length())
        self.idle = In(1)
        self.begin = In(1)
        self.instruction = In(MATMUL)
        self.advance = In(1)
        self.address = Out(self.address_bits)
        self.row = Out(self.row_bits)
        self.accumulate = Out(1)
        self.mask = Out(sizes.rows)
        self.first = Out(1)
        self.last = Out(1)
        self.closing = Out(1)
        self.final = Out(1)
        self.outside = Out(1)
        if sizes.blocks:
            self.move = Out(1)
            self.block = Out(range(max(2, sizes.blocks)))
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_register, accumulate, first, closing, final = data_registers(
            m, self.row, self.accumulate, self.first, self.closing, self.final
        )
        sizes, instruction = self.sizes, self.instruction
        bits = self.address_bits
        # Innermost first: rounds left, rounds, stride, and address of the current round.
        axes = ("x", "y", "z")
        count_bits = sizes.accumulator_depth.bit_length()
        left = [Signal(count_bits, name=f"{axis}_left", reset_less=True) for axis in axes]
        counts = [Signal(count_bits, name=f"{axis}_count", reset_less=True) for axis in axes]
        strides = [Signal(bits, name=f"{axis}_stride", reset_less=True) for axis in axes]
        starts = [Signal(bits, name=f"{axis}_start", reset_less=True) for axis in axes]
        # Address at which the pass began: an outermost loop, whose stride is ``rows``.
        step_start = Signal(bits, reset_less=True)
        taps_left = Signal(sizes.taps_bits, reset_less=True)
        # Last round of an axis; axis of one round. Precomputed to shorten the path.
        ends = [Signal(name=f"{axis}_end", reset_less=True) for axis in axes]
        single = [Signal(name=f"{axis}_single", reset_less=True) for axis in axes]
        base_row = Signal.like(row_register, reset_less=True)
        overflow = Signal(reset_less=True)
        # All of `ends`, registered: much of the matrix unit depends on it.
        pass_ends = Signal(reset_less=True)
        m.d.comb += [
            self.address.eq(starts[0]),
            self.last.eq(pass_ends),
            self.outside.eq((starts[0] >= sizes.unified_bytes) | overflow),
            self.mask.eq(below(taps_left, sizes.rows)),
        ]

        # The innermost loop that is not in its last round moves; 3 is the next pass. Two equal
        # registers, because each selects all bits of a factor.
        moved = Signal(bits)
        levels = [Signal(range(4), name=n, reset_less=True, attrs=COPY) for n in ("base", "by")]

        def innermost(ends: Any) -> Value:
            return Mux(~ends[0], 0, Mux(~ends[1], 1, Mux(~ends[2], 2, 3)))

        m.d.comb += moved.eq(
            Array([*starts, step_start])[levels[0]]
            + Array([*strides, Const(sizes.rows, bits)])[levels[1]]
        )
        new_counts = [instruction[f"{name}_count"][:count_bits] for name in axes]
        new_taps = instruction.taps[: sizes.taps_bits]
        single_rounds = Cat(count == 1 for count in new_counts)
        single_round = single_rounds.all()
        # Axes that the next pixel moves, and last rounds then.
        moves = [Cat(ends[:axis]).all() for axis in range(3)]
        ending = Signal(3)
        for axis in range(3):
            after = Mux(ends[axis], single[axis], left[axis] == 2)
            m.d.comb += ending[axis].eq(Mux(moves[axis], after, ends[axis]))
        # The one enable that `advance` reaches.
        goes = Signal()
        m.d.comb += goes.eq(self.advance & (~self.idle | self.begin))
        row, move = self._given(m, goes)
        with m.If(goes):
            with m.If(self.idle):
                for axis, name in enumerate(axes):
                    m.d.sync += [
                        left[axis].eq(new_counts[axis]),
                        counts[axis].eq(new_counts[axis]),
                        strides[axis].eq(instruction[f"{name}_stride"]),
                        starts[axis].eq(instruction.unified),
                        ends[axis].eq(new_counts[axis] == 1),
                        single[axis].eq(new_counts[axis] == 1),
                    ]
                m.d.sync += [level.eq(innermost(single_rounds)) for level in levels]
                m.d.sync += [
                    step_start.eq(instruction.unified),
                    taps_left.eq(new_taps),
                    closing.eq(~above(new_taps, sizes.rows)),
                    row_register.eq(row),
                    base_row.eq(row),
                    accumulate.eq(
                        instruction.accumulate if move is None else instruction.accumulate & ~move
                    ),
                    first.eq(1),
                    overflow.eq(0),
                    pass_ends.eq(single_round),
                    final.eq(single_round & ~above(new_taps, sizes.rows)),
                ]
            with m.Else():
                for axis in range(3):
                    with m.If(moves[axis]):
                        m.d.sync += [
                            starts[axis].eq(moved),
                            left[axis].eq(Mux(ends[axis], counts[axis], left[axis] - 1)),
                            ends[axis].eq(ending[axis]),
                        ]
                closes = ~above(taps_left, 2 * sizes.rows)
                m.d.sync += [level.eq(innermost(ending)) for level in levels]
                m.d.sync += [
                    pass_ends.eq(ending.all()),
                    final.eq(ending.all() & Mux(pass_ends, closes, closing)),
                    first.eq(pass_ends),
                    row_register.eq(row_register + 1),
                    overflow.eq(self._is_last()),
                ]
                with m.If(pass_ends):
                    m.d.sync += [
                        step_start.eq(moved),
                        taps_left.eq(taps_left - sizes.rows),
                        closing.eq(closes),
                        accumulate.eq(~self.move if sizes.blocks else 1),
                        row_register.eq(base_row),
                        overflow.eq(0),
                    ]
        return m

    def _is_last(self) -> Value:
        """Return True if no pixel of an instruction may come after the current row."""
        last = self.row[: self.sizes.accumulator_depth.bit_length() - 1].all()
        return Mux(self.move, self.row == self.weight_rows - 1, last) if self.sizes.blocks else last

    def _given(self, m: Module, goes: Value) -> tuple[Value, Value | None]:
        """Return the first row of the instruction that begins, and True if it is MOVE_WEIGHTS.

        ``goes``: it begins, or the next pixel comes.
        """
        instruction = self.instruction
        if not self.sizes.blocks:
            return instruction.accumulator, None
        move = Signal(name="given_move")
        row = Signal(self.row_bits, name="given_row")
        m.d.comb += [
            move.eq(instruction.opcode == isa.Opcode.MOVE_WEIGHTS),
            row.eq(Mux(move, instruction.tile * self.sizes.rows, instruction.accumulator)),
        ]
        move_register, block = data_registers(m, self.move, self.block)
        with m.If(goes):
            with m.If(self.idle):
                m.d.sync += [move_register.eq(move), block.eq(0)]
            with m.Elif(self.last):
                m.d.sync += block.eq(block + 1)
        return row, move
