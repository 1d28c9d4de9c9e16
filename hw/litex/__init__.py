"""The core in a LiteX system: memory by LiteDRAM, bitstreams of boards."""
