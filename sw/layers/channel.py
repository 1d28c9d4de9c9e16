"""Parameters of a channel as external memory holds them."""

import numpy as np

from celosia.hw.arch.config import PARAMETER_BYTES

#: Addend, multiplier, and shifts to the left and to the right of a channel.
CHANNEL = np.dtype(
    {
        "names": ["bias", "multiplier", "left", "right"],
        "formats": ["<i4", "<u4", "u1", "u1"],
        "offsets": [0, 4, 8, 9],
        "itemsize": PARAMETER_BYTES,
    }
)
#: With a shift of one to the left, this multiplier is one.
MULTIPLIER, LEFT = 1 << 30, 1
