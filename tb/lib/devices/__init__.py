"""Devices around a core, for tests: memories, the far end of a serial line, whole boards."""
