"""DMA: load and store unit."""
