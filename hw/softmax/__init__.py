"""SOFTMAX of rows, in the pipe of the vector unit."""
