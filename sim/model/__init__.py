"""Machine model: the meaning of programs, in the integer arithmetic of the contract."""
