"""From a component to Verilog: the only package that uses the back end of Amaranth."""
