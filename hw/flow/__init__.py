"""From Verilog to a bitstream with open tools, and what the tools say about it."""
