"""Instructions of a training step, each with its accesses to memory."""

from celosia.hw.arch.config import TABLE_BYTES
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Rounding, Space
from celosia.sw.compiler.emit.access import Access, Step, span
from celosia.sw.training.step.layout import TABLES, Layout
from celosia.sw.training.step.places import Matrix

#: Count and stride of each loop, the innermost first; at most three.
Loops = tuple[tuple[int, int], ...]


def loops(nest: Loops) -> dict[str, int]:
    """Return the fields of the pixels of MATMUL or MOVE_WEIGHTS."""
    return counts(nest) | strides(nest)


def counts(nest: Loops) -> dict[str, int]:
    """Return the fields of the counts of loops."""
    return {f"{name}_count": count for name, (count, _) in zip("xyz", nest, strict=False)}


def strides(nest: Loops, side: str = "") -> dict[str, int]:
    """Return the fields of strides; ``side``: ``"source_"`` or ``"destination_"`` of VECTOR."""
    steps = [stride if count > 1 else 0 for count, stride in nest]
    return {f"{side}{name}_stride": step for name, step in zip("xyz", steps, strict=False)}


def block(writes: bool, base: int, count: int) -> Access:
    """Return an access to bytes of the unified buffer."""
    return span("unified", writes, base, count)


class Emitter:
    """Steps of a program, in order; the methods append one each.

    ``layout``: the addresses; ``layer``: number of the layer of the steps that follow.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.config = layout.config
        self.steps: list[Step] = []
        self.layer = 0
        self._half = 1

    def next_half(self) -> int:
        """Return the half of the accumulators that was not used last."""
        self._half = 1 - self._half
        return self._half

    def add(self, opcode: Opcode, accesses: tuple[Access, ...], **fields: int) -> None:
        """Append an instruction."""
        self.steps.append(Step(Instruction(opcode, **fields), accesses, self.layer))

    def half(self, half: int) -> Access:
        """Return an access to half of the accumulators; one unit at a time owns it."""
        depth = self.config.accumulator_depth
        return span("accumulators", True, half * depth, depth)

    def copy(
        self,
        opcode: Opcode,
        matrix: Matrix,
        rows: tuple[int, int],
        external: int,
        length: int,
        external_pitch: int | None = None,
    ) -> None:
        """Append a LOAD or STORE of rows.

        Those in external memory follow one another, unless they have a pitch there.
        """
        count, pitch = rows[1] - rows[0], external_pitch or length
        accesses = (
            matrix.access(opcode is Opcode.LOAD, rows, (0, length)),
            span("external", opcode is Opcode.STORE, external, (count - 1) * pitch + length),
        )
        fields = {"external": external, "unified": matrix.at(rows[0])}
        if length == matrix.pitch == pitch:
            fields["length"] = count * length
        else:
            fields |= {"rows": count, "length": length}
            fields |= {"external_pitch": pitch, "unified_pitch": matrix.pitch}
        self.add(opcode, accesses, **fields)

    def copy_bytes(self, opcode: Opcode, unified: int, external: int, count: int) -> None:
        """Append a LOAD or STORE of bytes side by side."""
        accesses = (
            block(opcode is Opcode.LOAD, unified, count),
            span("external", opcode is Opcode.STORE, external, count),
        )
        self.add(opcode, accesses, external=external, unified=unified, length=count)

    def clear(self, unified: int, count: int) -> None:
        """Append zeros."""
        size = self.layout.size
        pixels, remainder = divmod(count, size)
        for first, fields in (
            (unified, {"x_count": pixels, "channels": size, "destination_x_stride": size}),
            (unified + pixels * size, {"channels": remainder}),
        ):
            if fields.get("x_count", 1) and fields["channels"]:
                access = block(True, unified, count)
                self.add(Opcode.FILL, (access,), destination_base=first, **fields)

    def load_weights(self, external: int, tile: int, tiles: int) -> None:
        """Append a load of tiles."""
        accesses = (
            span("weights", True, tile, tiles),
            span("external", False, external, tiles * self.config.tile_bytes),
        )
        self.add(Opcode.LOAD_WEIGHTS, accesses, external=external, tile=tile, tiles=tiles)

    def load_parameters(self, external: int, first: int, count: int) -> None:
        """Append a load of parameters of channels."""
        accesses = (span("parameters", True, first, count),)
        self.add(Opcode.LOAD_PARAMS, accesses, external=external, first=first, count=count)

    def load_table(self, name: str) -> None:
        """Append a load of a table."""
        slot, number = self.layout.table_of(name), TABLES.index(name)
        self.add(
            Opcode.LOAD_PARAMS,
            (span("tables", True, slot, 1),),
            external=self.layout.tables + number * TABLE_BYTES,
            kind=Kind.TABLES.value,
            first=slot,
        )

    def move(
        self,
        matrix: Matrix,
        tile: int,
        *,
        count: int,
        first: int,
        column: bool = False,
        start: int = 0,
    ) -> None:
        """Append MOVE_WEIGHTS of rows, or of columns, of a matrix: one tile row for each.

        ``count``: rows of the tiles; ``first``: first column of rows, or first row of columns;
        ``start``: first row of rows, or first column of columns.
        """
        size = self.layout.size
        many, side = (start, start + count), (first, first + size)
        rows, columns = (side, many) if column else (many, side)
        fields = {"x_stride": 1, "run": 1, "skip": (matrix.pitch - 1) // size}
        self.add(
            Opcode.MOVE_WEIGHTS,
            (
                matrix.access(False, rows, columns),
                span("weights", True, tile, self.layout.tiles_of(count)),
            ),
            unified=matrix.at(rows[0], columns[0]),
            x_count=count,
            taps=size,
            tile=tile,
            **(fields if column else {"x_stride": matrix.pitch}),
        )

    def multiply(
        self,
        matrix: Matrix,
        tile: int,
        *,
        taps: int,
        half: int,
        row: int = 0,
        column: int = 0,
        accumulate: bool = False,
    ) -> None:
        """Append MATMUL of the rows of a batch, from a column on: a pixel for each."""
        batch = self.layout.batch
        self.product(
            matrix.access(False, (0, batch), (column, column + taps)),
            matrix.at(0, column),
            ((batch, matrix.pitch),),
            tile,
            taps=taps,
            half=half,
            row=row,
            accumulate=accumulate,
        )

    def product(
        self,
        reads: Access,
        unified: int,
        pixels: Loops,
        tile: int,
        *,
        taps: int,
        half: int,
        row: int = 0,
        accumulate: bool = False,
        **fields: int,
    ) -> None:
        """Append MATMUL of the pixels of loops; the sums follow one another from ``row`` on."""
        tiles = self.layout.tiles_of(taps)
        self.add(
            Opcode.MATMUL,
            (reads, span("weights", False, tile, tiles), self.half(half)),
            unified=unified,
            taps=taps,
            tile=tile,
            accumulator=half * self.config.accumulator_depth + row,
            accumulate=int(accumulate),
            **loops(pixels),
            **fields,
        )

    def vector(
        self,
        accesses: tuple[Access, ...],
        parameters: str | int,
        *,
        half: int | None = None,
        row: int = 0,
        table: str | None = None,
        rounding: Rounding = Rounding.SINGLE,
        source_loops: Loops = (),
        destination_loops: Loops = (),
        **fields: int,
    ) -> None:
        """Append VECTOR with the table of a name, and parameters.

        ``parameters``: name of a set, or the first channel of a set for each column;
        ``half``: of the accumulators, whose sums from ``row`` on are the pixels, one after another;
        ``source_loops``, ``destination_loops``: of the same counts, the innermost first.
        """
        columns = isinstance(parameters, int)
        slot = parameters if isinstance(parameters, int) else self.layout.set_of(parameters)
        lanes = self.config.columns if columns else self.config.lanes
        used = [span("parameters", False, slot, lanes)]
        values = dict(fields)
        if half is not None:
            accesses = (self.half(half), *accesses)
            base = half * self.config.accumulator_depth + row
            values |= {
                "source": Space.ACCUMULATORS.value,
                "source_base": base,
                "source_x_stride": 1,
            }
        if table:
            number = self.layout.table_of(table)
            used.append(span("tables", False, number, 1))
            values |= {"use_table": 1, "table": number}
        values |= counts(source_loops) | strides(source_loops, "source_")
        values |= strides(destination_loops, "destination_")
        values |= {"params": slot, "per_channel": int(columns), "rounding": rounding.value}
        self.add(Opcode.VECTOR, (*accesses, *used), **values)

    def drain(
        self,
        matrix: Matrix,
        column: int,
        name: str,
        *,
        half: int,
        channels: int,
        blocks: int = 1,
        table: str | None = None,
        rounding: Rounding = Rounding.SINGLE,
        low: int = -128,
    ) -> None:
        """Append VECTOR from sums to columns of a matrix; each block has its own rows of sums."""
        size, batch = self.layout.size, self.layout.batch
        width = (blocks - 1) * size + channels
        self.vector(
            (matrix.access(True, (0, batch), (column, column + width)),),
            name,
            half=half,
            table=table,
            rounding=rounding,
            x_count=batch,
            y_count=blocks,
            channels=channels,
            source_y_stride=batch if blocks > 1 else 0,
            destination_base=matrix.at(0, column),
            destination_x_stride=matrix.pitch,
            destination_y_stride=size if blocks > 1 else 0,
            low=low,
        )
