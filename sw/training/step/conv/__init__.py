"""Convolutions of a training step: geometry, addresses, and the phases of their instructions."""
