"""Errors of convolutions in a training step: of results before the maxima, and of inputs.

The error of a maximum goes to all results of its window that equal it, unless they are zero: it is
added to twice the mask, clamps to -128 where the mask is set, and a table turns that into 0. The
errors of inputs are the products of the errors around them with the kernel, turned.
"""

from celosia.hw.arch.isa import Opcode
from celosia.sw.layers.weight_bytes import MOST
from celosia.sw.training.step.addresses import Backward, Convolution
from celosia.sw.training.step.emitter import Emitter, block
from celosia.sw.training.step.places import balanced


def append(emit: Emitter, number: int) -> None:
    """Append the errors of a convolution over the batch."""
    layout = emit.layout
    emit.layer = number
    _Layer(emit, layout.convolutions[number], layout.backward_buffers[number]).append()


class _Layer:
    """Errors of one convolution."""

    def __init__(self, emit: Emitter, conv: Convolution, buffers: Backward) -> None:
        self.emit = emit
        self.conv = conv
        self.buffers = buffers

    def append(self) -> None:
        """Append all instructions; the errors of inputs come after the masks of the next image."""
        emit, g, buffers = self.emit, self.conv.geometry, self.buffers
        emit.load_table("mask")
        for unified in buffers.errors:
            emit.clear(unified, g.error_bytes * (1 if g.first else g.blocks))
        if not g.first:
            count = self.conv.noise_rows * g.size
            emit.copy_bytes(Opcode.LOAD, buffers.noise, self.conv.noise, count)
            self._turn_weights()
        for image in range(self.conv.batch):
            self._unpool(image)
            if image and not g.first:
                self._inputs(image - 1)
        if not g.first:
            self._inputs(self.conv.batch - 1)

    def _turn_weights(self) -> None:
        """Append tiles of the kernel, turned: those of a pixel and C inputs follow one another."""
        emit, g = self.emit, self.conv.geometry
        external, tile = emit.layout.weights[self.conv.number][0], emit.layout.changing
        for j in range(g.blocks):
            matrix = self.buffers.weights[j % 2]
            emit.copy(Opcode.LOAD, matrix, (0, g.rows), external + j * g.rows * g.size, g.size)
            for turn in range(g.rows // g.size):
                target = tile + turn * g.blocks + j
                emit.move(matrix, target, count=g.size, first=turn * g.size, column=True)

    def _unpool(self, image: int) -> None:
        """Append the errors of an image before the maxima."""
        emit, conv, g = self.emit, self.conv, self.conv.geometry
        pooled = self.buffers.pooled[image % 2]
        count = g.blocks * g.maxima_bytes
        emit.copy_bytes(Opcode.LOAD, pooled, conv.pooled + image * count, count)
        for number in range(g.blocks):
            job = image * g.blocks + number
            plane = self.buffers.planes[job % 2]
            masks = conv.masks + job * g.plane_bytes
            emit.copy(Opcode.LOAD, plane, (0, plane.rows), masks, plane.pitch)
            if g.first:
                errors = self.buffers.errors[job % 2]
            else:
                errors = self.buffers.errors[image % 2] + number * g.error_bytes
            self._plane(pooled + number * g.size, job % 2, errors)
            external = conv.errors + job * g.error_bytes
            emit.copy_bytes(Opcode.STORE, errors, external, g.error_bytes)

    def _plane(self, pooled: int, turn: int, errors: int) -> None:
        """Append the errors of C channels of an image."""
        emit, g, pool = self.emit, self.conv.geometry, self.conv.layer.pool
        plane, layout, row = self.buffers.planes[turn], emit.layout, g.width * g.size
        limit = emit.config.accumulator_depth // g.width
        for first, last in balanced(g.high, limit):
            for y in range(pool):
                half = emit.next_half()
                emit.product(
                    block(False, pooled, (g.blocks - 1) * g.maxima_bytes + g.maxima_bytes),
                    pooled + first * g.wide * g.outputs,
                    ((pool, 0), (g.wide, g.outputs), (last - first, g.wide * g.outputs)),
                    layout.identity,
                    taps=g.size,
                    half=half,
                )
                emit.product(
                    plane.access(False, (first, last), (y * row, (y + 1) * row)),
                    plane.at(first, y * row),
                    ((g.width, g.size), (last - first, plane.pitch)),
                    layout.twice,
                    taps=g.size,
                    half=half,
                    accumulate=True,
                )
                target = g.error_origin + (first * pool + y) * g.grid
                emit.vector(
                    (block(True, errors, g.error_bytes),),
                    "same",
                    half=half,
                    table="mask",
                    channels=g.size,
                    destination_base=errors + target * g.size,
                    source_loops=((g.width, 1), (last - first, g.width)),
                    destination_loops=((g.width, g.size), (last - first, pool * g.grid * g.size)),
                )

    def _inputs(self, image: int) -> None:
        """Append the errors of the inputs of an image."""
        emit, conv, g = self.emit, self.conv, self.conv.geometry
        before = emit.layout.convolutions[conv.number - 1]
        inputs = self.buffers.inputs[image % 2]
        count = g.sources * g.channels
        for number in range(g.channels // g.size):
            limit = emit.config.accumulator_depth // conv.layer.width
            for rows in balanced(conv.layer.height, limit):
                half = emit.next_half()
                self._products(image, number, rows, half)
                width = conv.layer.width
                emit.vector(
                    (block(True, inputs, count),),
                    f"back{conv.number}",
                    half=half,
                    channels=g.size,
                    x_count=(rows[1] - rows[0]) * width,
                    destination_base=inputs + rows[0] * width * g.channels + number * g.size,
                    destination_x_stride=g.channels,
                    low=-MOST,
                )
        emit.copy_bytes(Opcode.STORE, inputs, before.pooled + image * count, count)

    def _products(self, image: int, number: int, rows: tuple[int, int], half: int) -> None:
        """Append the sums of C errors of some rows of inputs: noise, then pixels of the kernel."""
        emit, conv, g = self.emit, self.conv, self.conv.geometry
        layout, layer = emit.layout, conv.layer
        kernel, errors = layer.kernel, self.buffers.errors[image % 2]
        turn = image * (g.channels // g.size) + number
        noise = self.buffers.noise + (turn + rows[0] * layer.width) * g.size
        height = rows[1] - rows[0]
        emit.product(
            block(False, self.buffers.noise, conv.noise_rows * g.size),
            noise,
            ((height * layer.width, g.size),),
            layout.noise_tiles[conv.number],
            taps=g.size,
            half=half,
        )
        for pixel in range(kernel**2):
            y, x = divmod(pixel, kernel)
            start = (rows[0] + kernel - 1 - y) * g.grid + kernel - 1 - x
            tile = layout.changing + (pixel * (g.channels // g.size) + number) * g.blocks
            emit.product(
                block(False, errors, g.blocks * g.error_bytes),
                errors + start * g.size,
                ((layer.width, g.size), (height, g.grid * g.size)),
                tile,
                taps=g.outputs,
                half=half,
                accumulate=True,
                run=g.size,
                skip=g.error_bytes // g.size - 1,
            )
