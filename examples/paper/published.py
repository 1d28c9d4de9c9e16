"""Figures of the first TPU's paper.

N. P. Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017,
tables 1, 2 and 3 of https://arxiv.org/abs/1704.04760.
"""

from typing import NamedTuple

SOURCE = "Jouppi et al. 2017, arXiv:1704.04760, tables 1 to 3"

#: Clock in Hz; operations per second at most, two for each multiplication, in units of 10¹²; bytes
#: per second of the memory of weights. Table 2.
CLOCK_HZ = 700e6
PEAK_TOPS = 92.0
MEMORY = 34e9


class Workload(NamedTuple):
    """One network of the paper. Shares are per cent of the cycles."""

    fully_connected: int  #: Layers by kind, table 1.
    convolutions: int
    vectors: int
    pools: int
    weights: float  #: In millions.
    intensity: int  #: Multiplications for each byte of weights.
    batch: int
    active: float  #: Table 3, rows 1 to 6.
    useful: float
    unused: float
    stall: float
    shift: float
    other: float
    raw: float  #: Rows 7 and 8, reasons of cycles without a matrix operation.
    inputs: float
    tops: float  #: Row 9.


WORKLOADS = {
    "MLP0": Workload(
        *(5, 0, 0, 0, 20, 200, 200), *(12.7, 12.5, 0.3, 53.9, 15.9, 17.5, 3.3, 6.1, 12.3)
    ),
    "MLP1": Workload(
        *(4, 0, 0, 0, 5, 168, 168), *(10.6, 9.4, 1.2, 44.2, 13.4, 31.9, 8.4, 8.8, 9.7)
    ),
    "LSTM0": Workload(
        *(24, 0, 34, 0, 52, 64, 64), *(8.2, 8.2, 0.0, 58.1, 15.8, 17.9, 14.6, 5.1, 3.7)
    ),
    "LSTM1": Workload(
        *(37, 0, 19, 0, 34, 96, 96), *(10.5, 6.3, 4.2, 62.1, 17.1, 10.3, 10.6, 2.4, 2.8)
    ),
    "CNN0": Workload(
        *(0, 16, 0, 0, 8, 2888, 8), *(78.2, 78.2, 0.0, 0.0, 0.0, 21.8, 3.5, 3.4, 86.0)
    ),
    "CNN1": Workload(
        *(4, 72, 0, 13, 100, 1750, 32), *(46.2, 22.5, 23.7, 28.1, 7.0, 18.7, 22.8, 0.6, 14.1)
    ),
}
