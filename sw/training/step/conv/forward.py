"""Forward pass of convolutions in a training step: results, their maxima, and masks.

A mask is -128 where a result is not the maximum of its window, or is zero, else 0. Each job is the
C channels of an image; its masks come after the products of the next job, so that the array and the
vector unit work at the same time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from celosia.hw.arch.isa import Opcode, Rounding, Window
from celosia.sw.training.step.addresses import Convolution, Forward
from celosia.sw.training.step.emitter import Emitter, block
from celosia.sw.training.step.places import Matrix, balanced


@dataclass(frozen=True)
class _Results:
    """Layout of the maxima of all channels of an image, as the next layer reads them.

    ``origin``: byte of the first pixel; ``pixel``, ``row``: bytes from one to the next; ``count``:
    bytes of an image; ``external``: address of the first image; ``clear``: there are zeros between.
    """

    origin: int
    pixel: int
    row: int
    count: int
    external: int
    clear: bool


def forward(emit: Emitter) -> None:
    """Append the forward pass of all convolutions over the batch, layer by layer."""
    layout = emit.layout
    emit.load_weights(layout.tile_content, 0, layout.constant_tiles)
    for conv, buffers in zip(layout.convolutions, layout.forward_buffers, strict=True):
        _Layer(emit, conv, buffers).append()


class _Layer:
    """Forward pass of one convolution."""

    def __init__(self, emit: Emitter, conv: Convolution, buffers: Forward) -> None:
        self.emit = emit
        self.conv = conv
        self.buffers = buffers
        self.results = self._results()

    def _results(self) -> _Results:
        layout, own = self.emit.layout, self.conv.geometry
        if self.conv.number + 1 < layout.first:
            following = layout.convolutions[self.conv.number + 1]
            g = following.geometry
            origin, row = g.origin * g.pitch, g.grid * g.pitch
            return _Results(origin, g.pitch, row, g.image_bytes, following.images, clear=True)
        streamed = layout.streamed
        row = own.wide * own.outputs
        return _Results(0, own.outputs, row, streamed.count, streamed.external, clear=False)

    def append(self) -> None:
        """Append all instructions."""
        emit, conv = self.emit, self.conv
        emit.layer = conv.number
        emit.load_weights(
            emit.layout.weights[conv.number][0], emit.layout.changing, conv.forward_tiles
        )
        if self.results.clear:
            for results in self.buffers.results:
                emit.clear(results, self.results.count)
        for image in range(min(2, conv.batch)):
            self._load(image)
        before: Iterator[None] = iter(())
        jobs = range(conv.batch * conv.geometry.blocks)
        for job in jobs:
            stages = self._job(job)
            next(stages)
            next(before, None)
            before = stages
        next(before, None)

    def _load(self, image: int) -> None:
        count = self.conv.geometry.image_bytes
        unified = self.buffers.images[image % 2]
        self.emit.copy_bytes(Opcode.LOAD, unified, self.conv.images + image * count, count)

    def _job(self, job: int) -> Iterator[None]:
        """Append products and maxima; after a turn, masks and stores."""
        conv, g, buffers = self.conv, self.conv.geometry, self.buffers
        image, number = divmod(job, g.blocks)
        plane = buffers.planes[job % len(buffers.planes)]
        maxima, results = buffers.maxima[job % 2], buffers.results[image % 2]
        ends = number == g.blocks - 1
        self._products(image, number, plane)
        if ends and image + 2 < conv.batch:
            self._load(image + 2)
        self._pool(plane, number, results, maxima)
        yield
        self._mask(plane, maxima)
        address = conv.masks + job * g.plane_bytes
        self.emit.copy(Opcode.STORE, plane, (0, plane.rows), address, plane.pitch)
        if ends:
            external = self.results.external + image * self.results.count
            self.emit.copy_bytes(Opcode.STORE, results, external, self.results.count)
        yield

    def _products(self, image: int, number: int, plane: Matrix) -> None:
        """Append the results of C channels: int8, 0 to 127."""
        emit, g, pool = self.emit, self.conv.geometry, self.conv.layer.pool
        source, row = self.buffers.images[image % 2], g.grid * g.pitch
        tile = emit.layout.changing + number * (g.rows // g.size)
        limit = emit.config.accumulator_depth // g.width
        for first, last in balanced(g.height, limit, pool):
            half = emit.next_half()
            pixels = (g.width, g.pitch), (last - first, row)
            for taps in g.groups():
                emit.product(
                    block(False, source, g.image_bytes),
                    source + first * row + taps.offset,
                    pixels,
                    tile + taps.row // g.size,
                    taps=taps.count,
                    half=half,
                    accumulate=taps.row > 0,
                    run=taps.run,
                    skip=taps.skip,
                )
            windows = (first // pool, last // pool)
            emit.vector(
                (plane.access(True, windows, (0, plane.pitch)),),
                f"sum{self.conv.number}",
                half=half,
                rounding=Rounding.DOUBLE,
                channels=g.size,
                destination_base=plane.at(windows[0]),
                destination_x_stride=g.size,
                x_count=(last - first) * g.width,
                low=0,
            )

    def _pool(self, plane: Matrix, number: int, results: int, maxima: int) -> None:
        """Append the maxima of the windows, and those that are at least 1."""
        emit, g, pool, to = self.emit, self.conv.geometry, self.conv.layer.pool, self.results
        first = results + to.origin + number * g.size
        emit.vector(
            (plane.all(False), block(True, results, to.count)),
            "same",
            channels=g.size,
            source_base=plane.at(),
            window=Window.MAX.value,
            window_x_count=pool,
            window_x_stride=g.size,
            window_y_count=pool,
            window_y_stride=g.width * g.size,
            destination_base=first,
            source_loops=((g.wide, pool * g.size), (g.high, plane.pitch)),
            destination_loops=((g.wide, to.pixel), (g.high, to.row)),
        )
        emit.vector(
            (block(False, results, to.count), block(True, maxima, g.maxima_bytes)),
            "same",
            channels=g.size,
            source_base=first,
            destination_base=maxima,
            low=1,
            source_loops=((g.wide, to.pixel), (g.high, to.row)),
            destination_loops=((g.wide, g.size), (g.high, g.wide * g.size)),
        )

    def _mask(self, plane: Matrix, maxima: int) -> None:
        """Append the mask of C channels, in place of the results."""
        emit, g, pool = self.emit, self.conv.geometry, self.conv.layer.pool
        layout, row = emit.layout, g.width * g.size
        limit = emit.config.accumulator_depth // g.width
        for first, last in balanced(g.high, limit):
            for y in range(pool):
                half, rows = emit.next_half(), (first, last)
                columns = y * row, (y + 1) * row
                emit.product(
                    plane.access(False, rows, columns),
                    plane.at(first, y * row),
                    ((g.width, g.size), (last - first, plane.pitch)),
                    layout.identity,
                    taps=g.size,
                    half=half,
                )
                emit.product(
                    block(False, maxima, g.maxima_bytes),
                    maxima + first * g.wide * g.size,
                    ((pool, 0), (g.wide, g.size), (last - first, g.wide * g.size)),
                    layout.minus,
                    taps=g.size,
                    half=half,
                    accumulate=True,
                )
                emit.vector(
                    (plane.access(True, rows, columns),),
                    "threshold",
                    half=half,
                    channels=g.size,
                    destination_base=plane.at(first, y * row),
                    high=0,
                    source_loops=((g.width, 1), (last - first, g.width)),
                    destination_loops=((g.width, g.size), (last - first, plane.pitch)),
                )
