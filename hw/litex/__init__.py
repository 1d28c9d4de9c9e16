"""The core in a LiteX system: memory by LiteDRAM, the host over UARTBone."""
