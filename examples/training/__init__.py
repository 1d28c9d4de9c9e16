"""Training of the shipped models."""
