"""Sizes and instructions of a matrix unit, and the pixels of their passes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from issued import issued_bits

from celosia.hw import streams
from celosia.hw.arch import isa
from celosia.hw.matrix.sizes import MatrixSizes

#: Fields of a MATMUL that has no others.
MATMUL = isa.Instruction(isa.Opcode.MATMUL).fields


def matmul(index: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a MATMUL with some fields."""
    bits = issued_bits(isa.Instruction(isa.Opcode.MATMUL, **fields))
    instruction = {"matmul": isa.LAYOUTS[isa.Opcode.MATMUL].from_bits(bits)}
    return {"tag": index % (1 << streams.TAG_BITS), "fields": instruction}


def sizes(*, rows: int, blocks: int = 0, **changes: Any) -> MatrixSizes:
    """Return sizes of a matrix unit; ``blocks``: passes of the longest MOVE_WEIGHTS, or 0."""
    standard = {
        "columns": max(1, blocks) * rows,
        "unified_bytes": 64 * rows,
        "weight_tiles": 8,
        "accumulator_depth": 16,
        "bus_bytes": 4,
        "activation_weights": blocks > 0,
    }
    return MatrixSizes(rows=rows, **(standard | changes))


def pixels(dut: Any, fields: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Yield the outputs of a ``PassAddresses`` for each pixel of each pass, as MATMUL defines."""
    f, of = MATMUL | fields, dut.sizes
    move = fields.get("opcode") is isa.Opcode.MOVE_WEIGHTS
    base = f["tile"] * of.rows if move else f["accumulator"]
    # MATMUL stays in its half of the accumulators, MOVE_WEIGHTS in the weight buffer.
    size = dut.weight_rows if move else of.accumulator_depth
    steps = -(-f["taps"] // of.rows)
    count = f["x_count"] * f["y_count"] * f["z_count"]
    for step in range(steps):
        pixel = 0
        for z in range(f["z_count"]):
            for y in range(f["y_count"]):
                for x in range(f["x_count"]):
                    origin = x * f["x_stride"] + y * f["y_stride"] + z * f["z_stride"]
                    address = f["unified"] + origin + step * of.rows
                    row = base + pixel
                    lanes = np.arange(of.rows) + step * of.rows < f["taps"]
                    yield {
                        "address": address,
                        "row": row,
                        "accumulate": int(not move and (step > 0 or f["accumulate"])),
                        "mask": int(lanes @ (1 << np.arange(of.rows))),
                        "first": int(pixel == 0),
                        "last": int(pixel == count - 1),
                        "final": int(step == steps - 1 and pixel == count - 1),
                        "outside": int(address >= of.unified_bytes or row // size != base // size),
                        **({"move": int(move)} if of.blocks else {}),
                        **({"block": step} if move else {}),
                    }
                    pixel += 1
