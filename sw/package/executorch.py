"""Celosia in ExecuTorch: a partitioner, and a backend of its runtime."""

from celosia.sw.executorch.partition import CelosiaPartitioner
from celosia.sw.executorch.runtime import Runtime

__all__ = ["CelosiaPartitioner", "Runtime"]
