"""Host link: a serial line on one side, the buses of the core on the other."""
