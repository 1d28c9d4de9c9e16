"""Files for a design around the core: waivers, FuseSoC core, registers, driver in C."""
