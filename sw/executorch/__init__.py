"""ExecuTorch: a partitioner, a backend for its compiler, and one for its runtime."""
