"""Kit of the cocotb benches: generated Verilog on a simulator, beside the machine model."""
