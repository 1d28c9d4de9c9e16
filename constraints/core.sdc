# Timing of the core alone (the module celosia of "celosia verilog"), for other flows; celosia synth
# requests the same clock unless it is told another one. Set the period to the clock of the design
# around the core.
create_clock -name clk -period 11.111 [get_ports {clk}]

# All inputs come from registers of the same clock, and all outputs go to registers: half of the
# period is left to the logic and wires outside. rst is synchronous; a register follows it.
set_input_delay -clock clk 5.556 [remove_from_collection [all_inputs] [get_ports {clk}]]
set_output_delay -clock clk 5.556 [all_outputs]
