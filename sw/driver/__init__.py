"""Driver of cores: registers, devices, and the line to a board; in C, too."""
