"""Instructions of a training step, each with its accesses to memory."""

from celosia.hw.arch.config import TABLE_BYTES
from celosia.hw.arch.isa import Instruction, Kind, Opcode, Rounding, Space
from celosia.sw.compiler.emit.access import Access, Step, span
from celosia.sw.training.step.layout import TABLES, Layout, Matrix


class Emitter:
    """Steps of a program, in order; the methods append one each.

    ``layout``: the addresses; ``layer``: number of the layer of the steps that follow.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.config = layout.config
        self.steps: list[Step] = []
        self.layer = 0

    def add(self, opcode: Opcode, accesses: tuple[Access, ...], **fields: int) -> None:
        """Append an instruction."""
        self.steps.append(Step(Instruction(opcode, **fields), accesses, self.layer))

    def half(self, half: int) -> Access:
        """Return an access to half of the accumulators; one unit at a time owns it."""
        depth = self.config.accumulator_depth
        return span("accumulators", True, half * depth, depth)

    def copy(
        self, opcode: Opcode, matrix: Matrix, rows: tuple[int, int], external: int, length: int
    ) -> None:
        """Append a LOAD or STORE of rows; those in external memory follow one another."""
        count = rows[1] - rows[0]
        total = count * length
        accesses = (
            matrix.access(opcode is Opcode.LOAD, rows, (0, length)),
            span("external", opcode is Opcode.STORE, external, total),
        )
        fields = {"external": external, "unified": matrix.at(rows[0])}
        if length == matrix.pitch:
            fields["length"] = total
        else:
            fields |= {"rows": count, "length": length}
            fields |= {"external_pitch": length, "unified_pitch": matrix.pitch}
        self.add(opcode, accesses, **fields)

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

    def multiply(self, matrix: Matrix, tile: int, *, taps: int, half: int, row: int = 0) -> None:
        """Append MATMUL of the rows of a batch: a pixel for each."""
        batch = self.layout.batch
        self.add(
            Opcode.MATMUL,
            (
                matrix.access(False, (0, batch), (0, taps)),
                span("weights", False, tile, self.layout.tiles_of(taps)),
                self.half(half),
            ),
            unified=matrix.at(),
            x_count=batch,
            x_stride=matrix.pitch,
            taps=taps,
            tile=tile,
            accumulator=half * self.config.accumulator_depth + row,
        )

    def vector(
        self,
        accesses: tuple[Access, ...],
        parameters: str | int,
        *,
        table: str | None = None,
        rounding: Rounding = Rounding.SINGLE,
        **fields: int | Space,
    ) -> None:
        """Append VECTOR with the table of a name, and parameters.

        ``parameters``: name of a set, or the first channel of a set for each column.
        """
        columns = isinstance(parameters, int)
        slot = parameters if isinstance(parameters, int) else self.layout.set_of(parameters)
        lanes = self.config.columns if columns else self.config.lanes
        used = [span("parameters", False, slot, lanes)]
        given = {
            key: value.value if isinstance(value, Space) else value for key, value in fields.items()
        }
        if table:
            number = self.layout.table_of(table)
            used.append(span("tables", False, number, 1))
            given |= {"use_table": 1, "table": number}
        given |= {"params": slot, "per_channel": int(columns), "rounding": rounding.value}
        self.add(Opcode.VECTOR, (*accesses, *used), **given)

    def drain(
        self,
        matrix: Matrix,
        column: int,
        name: str,
        *,
        half: int,
        channels: int,
        row: int = 0,
        blocks: int = 1,
        table: str | None = None,
        rounding: Rounding = Rounding.SINGLE,
        **fields: int,
    ) -> None:
        """Append VECTOR from sums to columns of a matrix; each block has its own rows of sums."""
        size, batch = self.layout.size, self.layout.batch
        depth = self.config.accumulator_depth
        width = (blocks - 1) * size + channels
        self.vector(
            (self.half(half), matrix.access(True, (0, batch), (column, column + width))),
            name,
            table=table,
            rounding=rounding,
            source=Space.ACCUMULATORS,
            x_count=batch,
            y_count=blocks,
            channels=channels,
            source_base=half * depth + row,
            source_x_stride=1,
            source_y_stride=batch if blocks > 1 else 0,
            destination_base=matrix.at(0, column),
            destination_x_stride=matrix.pitch,
            destination_y_stride=size if blocks > 1 else 0,
            **fields,
        )
