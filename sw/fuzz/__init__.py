"""Random programs that run on the simulated core and on the machine model."""
