"""Random instructions of the vector unit."""

import numpy as np
from vector_bench import loops, spread

from celosia.hw.arch.config import SOFTMAX_ELEMENTS, SOFTMAX_ROWS
from celosia.hw.arch.isa import PRODUCT_MODES, Instruction, Mode, Opcode, Space


class Programs:
    """Random instructions that stay inside the memories."""

    def __init__(self, rng, sizes):
        self.rng = rng
        self.sizes = sizes

    def _below(self, *ends):
        return int(self.rng.choice([self.rng.integers(1, end + 1) for end in ends]))

    def _reach(self, fields, side, space, regions):
        """Choose strides and base of one side so that all of it lies in one region."""
        rng, rows = self.rng, self.sizes["rows"]
        low, high = regions
        flat = space == Space.ACCUMULATORS.value
        while True:
            # Smaller and smaller, so that it fits in the end.
            limit = max(1, int((high - low) * rng.random() ** 3))
            more = {f"{side}{a}_stride": int(rng.integers(0, limit)) for a in "xyz"}
            if side == "source_":
                more |= {f"window_{a}_stride": int(rng.integers(0, limit)) for a in "xy"}
            more[f"{side}run"] = self._below(3, fields["channels"], 65535)
            more[f"{side}skip"] = int(rng.choice([0, 0, 1, 2]))
            trial = Instruction(Opcode.VECTOR, **fields, **more)
            end = loops(trial, side).max() + 1
            if side == "source_":
                end += loops(trial, "window_", "xy").max()
            if not flat:
                end += spread(trial, side, rows).max()
            if end <= high - low:
                more[f"{side}base"] = int(rng.integers(low, high - end + 1))
                return more

    def vector(self, **given):
        """Return a random VECTOR; ``given`` fields are not random."""
        rng, s = self.rng, self.sizes
        source, destination = rng.integers(0, 2, 2).tolist()
        source, destination = given.get("source", source), given.get("destination", destination)
        modes = 5 if s.get("elementwise_products") else 3
        mode = int(rng.integers(0, modes)) if (source, destination) == (0, 1) else 0
        most = s["columns"] if 1 in (source, destination) else 3 * max(s["lanes"], s["rows"]) + 2
        most = min(most, s["parameter_channels"])
        per_channel = int(rng.integers(0, 2))
        channels = min(self._below(most, s["lanes"]), most)
        groups = -(-channels // s["lanes"]) if per_channel else 1
        spare = s["parameter_channels"] // s["lanes"] - groups
        bounds = rng.integers(-128, 128, 2).tolist()
        fields = {
            "source": source,
            "destination": destination,
            **{f"{a}_count": self._below(3) for a in "xyz"},
            "channels": channels,
            "window": int(rng.integers(0, 2)),
            **{f"window_{a}_count": self._below(1, 3) for a in "xy"},
            "mode": mode,
            "params": int(rng.integers(0, spare + 1)) * s["lanes"],
            "per_channel": per_channel,
            "rounding": int(rng.integers(0, 2)),
            "zero_point": int(rng.integers(-128, 128)),
            "low": min(bounds),
            "high": max(bounds),
            "use_table": int(rng.integers(0, 2)),
            "table": int(rng.integers(0, s["tables"])),
            **given,
        }
        # Apart, so that no pixel reads what another pixel of the same instruction has written.
        bytes_, sums = s["unified_bytes"], 2 * s["accumulator_depth"]
        whole = {Space.UNIFIED.value: bytes_, Space.ACCUMULATORS.value: sums}
        from_, to = (0, whole[source]), (0, whole[destination])
        if source == destination:
            half = whole[source] // 2
            from_, to = ((0, half), (half, 2 * half))[:: 1 if rng.integers(2) else -1]
        fields |= self._reach(fields, "source_", source, from_)
        fields |= self._reach(fields, "destination_", destination, to)
        if Mode(mode) in PRODUCT_MODES:
            rows = loops(Instruction(Opcode.VECTOR, **fields), "destination_")
            if np.unique(rows).size < rows.size:
                # Products are not forwarded.
                mode = fields["mode"] = Mode.ADD.value
        if destination == Space.UNIFIED.value or mode != Mode.ADD.value:
            return Instruction(Opcode.VECTOR, **fields)
        if rng.integers(3) == 0:
            fields |= {f"destination_{a}_stride": 0 for a in "xyz"}
        return Instruction(Opcode.VECTOR, **fields)

    def fill(self):
        """Return a random FILL."""
        fields = {**{f"{a}_count": self._below(4) for a in "xyz"}, "channels": self._below(1, 9)}
        fields |= self._reach(fields, "destination_", 0, (0, self.sizes["unified_bytes"]))
        return Instruction(Opcode.FILL, value=int(self.rng.integers(-128, 128)), **fields)

    def softmax(self):
        """Return a random SOFTMAX, in place or from one half of the buffer to the other."""
        rng, size = self.rng, self.sizes["unified_bytes"]
        in_place = bool(rng.integers(2))
        space = size if in_place else size // 2
        channels = self._below(3, 40, min(SOFTMAX_ELEMENTS, space))
        # In place, rows must not overlap.
        least = channels if in_place else 0
        rows = min(self._below(3, SOFTMAX_ROWS), max(1, 100 // channels), space // max(1, least))
        fields = {"x_count": rows, "channels": channels}
        bases = rng.permutation([0, space])
        for side, base in zip(("source", "destination"), bases, strict=True):
            most = (space - channels) // max(1, rows - 1)
            stride = int(rng.integers(min(least, most), most + 1))
            spare = space - channels - (rows - 1) * stride
            at = int(rng.integers(spare + 1)) + (0 if in_place else int(base))
            fields |= {f"{side}_x_stride": stride, f"{side}_base": at}
        if in_place:
            same = ("x_stride", "base")
            fields |= {f"destination_{name}": fields[f"source_{name}"] for name in same}
        return Instruction(Opcode.SOFTMAX, **fields)

    def any(self):
        """Return a random instruction."""
        if self.sizes.get("softmax") and self.rng.random() < 0.3:
            return self.softmax()
        return self.fill() if self.rng.random() < 0.2 else self.vector()
