"""Let the processor of a simulated LiteX system classify digits: digits.py PROGRAM IMAGES."""

import sys
from pathlib import Path

import numpy as np

from celosia.hw.arch.presets import preset
from celosia.sw.driver.link import HostLink
from celosia.sw.runtime.litex import open_litex

#: Where host and main.c meet, after the core's part of memory: four words, image, scores.
BOX = 0x300000
IMAGE = BOX + 16
SCORES = IMAGE + 784
IDLE, REQUESTED, DONE = range(3)


def word(value: int) -> bytes:
    """Return a word as it lies in memory."""
    return value.to_bytes(4, "little")


def classify(link: HostLink, image: np.ndarray) -> str:
    """Return the digit that the processor finds in an image, the core's cycles, and the scores."""
    link.write(IMAGE, image.tobytes())
    link.write(BOX, word(REQUESTED))
    while link.read(BOX, 4) != word(DONE):
        link.pause(0.1)
    result, digit, cycles = np.frombuffer(link.read(BOX + 4, 12), "<u4")
    scores = np.frombuffer(link.read(SCORES, 10), np.int8)
    return f"{digit}, {cycles} cycles: {scores}" if result == 0 else f"failed, result {result}"


def main() -> None:
    """Start the program, then give it image after image."""
    program, images = sys.argv[1:]
    device = open_litex("sim+vexriscv", preset("nano"), BOX)
    device.link.write(BOX, word(IDLE))
    device.link.boot(Path(program).read_bytes())
    for image in np.load(images):
        print(classify(device.link, image))
    device.close()


if __name__ == "__main__":
    main()
