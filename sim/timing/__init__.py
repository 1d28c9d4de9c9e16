"""Estimate of cycles: costs of instructions, and a simulation of units and ports."""
