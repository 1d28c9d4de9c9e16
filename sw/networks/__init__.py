"""A table of any networks: bytes beside LiteRT's, cycles, times on boards, cycles of Vela."""
