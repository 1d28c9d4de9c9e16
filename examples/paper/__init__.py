"""The workloads of the first TPU's paper on a core of its size, estimated."""
