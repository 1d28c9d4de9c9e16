"""From Verilog to a bitstream with open tools, and the reports of the tools."""
