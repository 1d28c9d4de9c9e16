"""Geometry of a convolution on the core: grids of pixels, rows of weights, planes of results."""

from dataclasses import dataclass

from celosia.sw.training.scheme import Conv


@dataclass(frozen=True)
class Taps:
    """Taps of one MATMUL of the forward pass: a kernel, or the channels of one of its pixels.

    ``offset``: of the first from the pixel of the result, in bytes; ``count``, ``run``, ``skip``:
    as in MATMUL; ``row``: first row of the weights.
    """

    offset: int
    count: int
    run: int
    skip: int
    row: int


class Geometry:
    """Sizes and offsets of a convolution.

    Images lie on a grid, ``grid`` pixels a row, with zeros around them: the zeros right of a row
    are also those left of the next. The errors of the results before the windows lie on a grid of
    the same width, one plane for each C channels. So the pixels that one weight multiplies are one
    run of pixels of the images, and one of the errors.

    ``layer``; ``size``: rows and columns of the array; ``first``: no errors of inputs are wanted.
    """

    def __init__(self, layer: Conv, size: int, *, first: bool) -> None:
        kernel, padding = layer.kernel, layer.padding
        self.layer, self.size, self.first = layer, size, first
        #: Images of one channel have pixels of one byte.
        self.single = first and layer.inputs == 1
        self.channels = 1 if self.single else self.padded(layer.inputs)
        #: Bytes of a pixel. Columns can be read, as the pitch is 1 modulo R.
        self.pitch = 1 if self.single else self.channels + 1
        self.outputs = self.padded(layer.outputs)
        self.blocks = self.outputs // size
        self.high, self.wide = layer.pooled
        #: Results before the windows of the maxima.
        self.height, self.width = self.high * layer.pool, self.wide * layer.pool
        least = layer.width + padding
        self.grid = least + ((kernel - least) % size if self.single else 0)
        self.origin = padding * self.grid + padding
        pixels = (layer.height + 2 * padding - 1) * self.grid + layer.width + 2 * padding
        self.image_bytes = self.padded(pixels * self.pitch)
        self.rows = self.padded(kernel**2 * self.channels)
        #: Pixels that a weight multiplies, with those between the rows, whose errors are zero.
        self.taps = (self.height - 1) * self.grid + self.width
        margin = 0 if first else kernel - 1 - padding
        self.error_origin = margin * self.grid + margin
        self.error_pixels = self.taps
        if not first:
            self.error_pixels = (layer.height + kernel - 2) * self.grid + layer.width + kernel - 1
        self.error_bytes = self.error_pixels * size
        #: A plane of C channels of the results, and one of their maxima.
        self.plane_bytes = self.height * self.width * size
        self.maxima_bytes = self.high * self.wide * size

    def padded(self, count: int) -> int:
        """Return a count rounded up to whole tiles."""
        return -(-count // self.size) * self.size

    @property
    def sources(self) -> int:
        """Pixels of an image."""
        return self.layer.height * self.layer.width

    @property
    def kernel_row(self) -> int:
        """Rows of the weights of one row of the kernel."""
        return self.layer.kernel * self.channels

    def groups(self) -> list[Taps]:
        """Return the MATMULs of the forward pass of a pixel."""
        kernel = self.layer.kernel
        if self.single:
            return [Taps(0, kernel**2, kernel, (self.grid - kernel) // self.size, 0)]
        return [
            Taps((y * self.grid + x) * self.pitch, self.channels, self.channels, 0, row)
            for y in range(kernel)
            for x in range(kernel)
            for row in [(y * kernel + x) * self.channels]
        ]
