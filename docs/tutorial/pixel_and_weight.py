"""Follow one pixel and one weight through a compiled program, on the machine model.

Every address is one of the program's, every value is read from the memories of the model.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from celosia.hw.arch.isa import Instruction, Opcode, disassemble
from celosia.hw.arch.presets import PRESETS
from celosia.sim.check import footprint
from celosia.sim.model.machine import Machine
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load

HERE = Path(__file__).resolve().parent
CONFIG = PRESETS["edge"]
#: Row and column of the pixel; row and column of the weight in its filter, and the filter.
PIXEL, WEIGHT, CHANNEL = (12, 16), (1, 1), 5
_HALT = Instruction(Opcode.HALT)


class Load(NamedTuple):
    """Addresses of a byte before and after LOAD."""

    instruction: Instruction
    external: int
    unified: int


class Product(NamedTuple):
    """A MATMUL that reads the pixel: taps and weights of one sum."""

    instruction: Instruction
    pixel: int
    taps: np.ndarray
    weights: np.ndarray
    row: int
    sum: int


class Result(NamedTuple):
    """A VECTOR that reads the sum: its window, parameters of the channel, and the byte written."""

    instruction: Instruction
    window: list[int]
    parameters: tuple[int, int, int, int]
    address: int
    value: int


class Story:
    """The machine model, run instruction by instruction, and what happened to pixel and weight."""

    def __init__(self) -> None:
        graph = load(HERE / "digits.tflite")
        filters = graph.tensors[graph.operations[0].inputs[1]]
        assert filters.data is not None and filters.quantization is not None
        self.filters = filters.data[..., 0]
        self.scale = float(filters.quantization.scales[CHANNEL])
        self.program = compile_graph(graph, CONFIG, 1)
        self.machine = Machine(CONFIG, memory_bytes=self.program.memory_bytes)
        pixels = np.asarray(Image.open(HERE / "soc" / "digit.png", formats=["PNG"]).convert("L"))
        self.byte = int(pixels[PIXEL])
        self.image = (pixels ^ 0x80).view(np.int8)
        (self.source,) = self.program.inputs
        for segment in self.program.segments:
            self._write(segment.address, segment.data)
        self._write(self.source.address, self.image.tobytes())
        self.tap = WEIGHT[0] * 3 + WEIGHT[1]
        self.weight_load = self._setup()
        self._main()

    def _write(self, address: int, content: bytes) -> None:
        data = np.frombuffer(content, np.uint8)
        self.machine.memory[address : address + data.size] = data

    def _step(self, instruction: Instruction) -> None:
        """Run one instruction by itself."""
        self.machine.run([instruction.but(wait=0, post=0), _HALT])

    def _setup(self) -> Instruction:
        """Run what loads the constants; return the LOAD_WEIGHTS of the first tile."""
        found = []
        for instruction in self.program.setup.instructions:
            if instruction.opcode is not Opcode.HALT:
                self._step(instruction)
            if instruction.opcode is Opcode.LOAD_WEIGHTS and instruction.tile == 0:
                found.append(instruction)
        return found[0]

    def _main(self) -> None:
        """Run the program and note the instructions that touch the pixel."""
        external = self.source.address + PIXEL[0] * self.image.shape[1] + PIXEL[1]
        loaded = product = result = store = None
        for instruction in self.program.main.instructions:
            if instruction.opcode is Opcode.HALT:
                break
            self._step(instruction)
            match instruction.opcode:
                case Opcode.LOAD:
                    loaded = loaded or self._loaded(instruction, external)
                case Opcode.MATMUL if loaded:
                    product = product or self._product(instruction, loaded.unified)
                case Opcode.VECTOR if product:
                    result = result or self._result(instruction, product.row)
                case Opcode.STORE:
                    store = instruction
        if not (loaded and product and result and store):
            wanted = f"wanted a pixel that is tap {self.tap} of a window that is kept"
            raise SystemExit(f"pixel {PIXEL}: {wanted}, got none")
        self.load, self.product, self.result, self.store = loaded, product, result, store

    def _loaded(self, i: Instruction, external: int) -> Load | None:
        (found,) = np.nonzero(footprint.external_block(i).addresses().ravel() == external)
        if not found.size:
            return None
        return Load(i, external, int(footprint.unified_block(i).addresses().ravel()[found[0]]))

    def _product(self, i: Instruction, unified: int) -> Product | None:
        """Return the sum that has the pixel as the tap of the weight."""
        taps = footprint.taps(i, CONFIG).addresses().reshape(-1, i.taps)
        (found,) = np.nonzero(taps[:, self.tap] == unified)
        if not found.size:
            return None
        pixel = int(found[0])
        row = i.accumulator + pixel
        weights = self.machine.weights[i.tile, : i.taps, CHANNEL].copy()
        total = int(self.machine.accumulators[row, CHANNEL])
        return Product(i, pixel, self.machine.unified[taps[pixel]], weights, row, total)

    def _result(self, i: Instruction, row: int) -> Result | None:
        """Return the result that has the sum in its window."""
        windows = footprint.window(i)
        reads = [footprint.source(i, CONFIG, offset).addresses().ravel() for offset in windows]
        _, found = np.nonzero(np.array(reads) == row * CONFIG.columns + CHANNEL)
        if not found.size:
            return None
        window = [int(self.machine.accumulators.ravel()[read[found[0]]]) for read in reads]
        channel = self.machine.parameters[i.params + CHANNEL]
        bias, multiplier, left, right = (
            int(channel[name]) for name in ("bias", "multiplier", "left", "right")
        )
        address = int(footprint.destination(i, CONFIG).addresses().ravel()[found[0]])
        value = int(self.machine.unified[address])
        return Result(i, window, (bias, multiplier, left, right), address, value)

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the array that the layer uses: taps and channels."""
        return self.filters[CHANNEL].size, len(self.filters)

    @property
    def uses(self) -> int:
        """Pixels that the weight is multiplied by."""
        instructions = self.program.main.instructions
        matmuls = (i for i in instructions if i.opcode is Opcode.MATMUL)
        return sum(footprint.pixels(i) for i in matmuls if i.tile == self.weight_load.tile)

    @property
    def scores(self) -> np.ndarray:
        """The bytes that STORE wrote into external memory."""
        start = self.store.external
        return self.machine.memory[start : start + self.store.length].view(np.int8)


def bank(address: int) -> str:
    """Return bank and row of a byte of the unified buffer."""
    return f"byte {address}: bank {address % CONFIG.rows}, row {address // CONFIG.rows}"


def the_pixel(story: Story) -> list[str]:
    """Return the text of each step of the pixel."""
    load, product, result, store = story.load, story.product, story.result, story.store
    row, column = PIXEL
    value, weight = int(product.taps[story.tap]), int(product.weights[story.tap])
    i = product.instruction
    bias, multiplier, left, right = result.parameters
    biased = max(result.window) + bias
    real = biased * multiplier * 2.0 ** (left - right - 31)
    return [
        f"pixel {row}, {column} of the picture: byte {story.byte}, int8 {value}\n"
        f"external memory: 0x{story.source.address:x} + {row} * 28 + {column} = 0x{load.external:x}",
        f"{disassemble(load.instruction)}\nunified buffer, {bank(load.unified)}",
        f"{disassemble(i)}\n"
        f"pixel {product.pixel} of the instruction: y {product.pixel // i.x_count}, "
        f"x {product.pixel % i.x_count}; ours is tap {story.tap} of {i.taps}\n"
        f"taps    {product.taps.tolist()}\nweights {product.weights.tolist()}\n"
        f"array row {story.tap}, column {CHANNEL}: {value} * {weight} = {value * weight}\n"
        f"sum of column {CHANNEL}: {product.taps.astype(int) @ product.weights}",
        f"accumulators, row {product.row}, column {CHANNEL}: {product.sum}",
        f"{disassemble(result.instruction)}\n"
        f"window {result.window}: greatest {max(result.window)}\n"
        f"bias {bias}: {biased}\n"
        f"times {multiplier} * 2^{left - right - 31}: {real:.2f}\n"
        f"plus zero point {result.instruction.zero_point}, as int8: {result.value}\n"
        f"unified buffer, {bank(result.address)}",
        f"{disassemble(store)}\nexternal memory, 0x{store.external:x}: {story.scores.tolist()}\n"
        f"greatest: {story.scores.argmax()}",
    ]


def the_weight(story: Story) -> list[str]:
    """Return the text of each step of the weight."""
    c, tap = CONFIG, story.tap
    first = story.weight_load
    segment = story.program.segments[0]
    offset = tap * c.tile_row_bytes + CHANNEL
    matrix = np.frombuffer(segment.data, np.int8).reshape(c.rows, c.tile_row_bytes)
    weight = int(story.filters[CHANNEL][WEIGHT])
    return [
        f"filter {CHANNEL}, row {WEIGHT[0]}, column {WEIGHT[1]}: {weight}, "
        f"a real {weight * story.scale:.4f}\n"
        f"tap {WEIGHT[0]} * 3 + {WEIGHT[1]} = {tap}",
        f"tile 0, row {tap}, column {CHANNEL}: {matrix[tap, CHANNEL]}\n"
        f"external memory: 0x{segment.address:x} + {tap} * {c.tile_row_bytes} + {CHANNEL} "
        f"= 0x{segment.address + offset:x}",
        f"{disassemble(first)}\nweight buffer, tile {first.tile}, row {tap}, column {CHANNEL}: "
        f"{story.machine.weights[first.tile, tap, CHANNEL]}",
        f"cell of row {tap}, column {CHANNEL}: used for {story.uses} pixels",
    ]


def main() -> None:
    """Print both ways, step by step."""
    story = Story()
    for title, steps in (("The pixel", the_pixel(story)), ("The weight", the_weight(story))):
        for number, text in enumerate(steps, 1):
            print(f"{title}, step {number}\n{text}\n")


if __name__ == "__main__":
    main()
