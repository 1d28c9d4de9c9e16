"""Write a picture of 28 × 28 pixels as the network's input: int8, byte - 128."""

import numpy as np
from PIL import Image

pixels = np.asarray(Image.open("digit.png", formats=["PNG"]).convert("L"))
np.save("image.npy", (pixels ^ 0x80).view(np.int8).reshape(1, -1))
for row in pixels[6:23]:
    print("".join(" .:-=+*#%@"[int(pixel) * 9 // 255] for pixel in row).rstrip())
