"""Write the data of ``dense.s``, or compare a result with NumPy.

``python assembly_data.py`` writes ``x.npy``, ``w.npy`` and ``params.npy``;
``python assembly_data.py y.npy`` prints the result of a run and compares it.
"""

import argparse

import numpy as np
from systolic_array import matrices

BIAS = np.array([10, 20, -30, 40], np.int32)


def parameters(bias: np.ndarray) -> np.ndarray:
    """Return int32 [channels, 4], the parameters of channels that are only rounded and clamped.

    Each has 16 bytes: bias, multiplier, a word with the left shift in its lowest byte and the
    right shift in the next, and a zero. 2 · 2^30 / 2^31 is a factor of one.
    """
    multiplier, left = np.full_like(bias, 1 << 30), np.full_like(bias, 1)
    return np.stack([bias, multiplier, left, np.zeros_like(bias)], axis=1)


def main() -> None:
    """Write files, or compare one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", nargs="?", metavar="y.npy", help="result to compare")
    parser.add_argument("--low", type=int, default=-128, help="VECTOR's lower limit (-128)")
    arguments = parser.parse_args()
    x, w = matrices(4)
    if arguments.result is None:
        np.save("x.npy", x)
        np.save("w.npy", w)
        np.save("params.npy", parameters(BIAS))
        print(f"x\n{x}\nw\n{w}\nbias {BIAS}")
        return
    y = np.load(arguments.result).reshape(4, 4)
    wanted = np.clip(x.astype(np.int32) @ w + BIAS, arguments.low, 127)
    wrong = np.count_nonzero(y != wanted)
    print(f"{y}\n{wrong} of {wanted.size} differ from NumPy")


if __name__ == "__main__":
    main()
