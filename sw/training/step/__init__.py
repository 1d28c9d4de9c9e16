"""Program of a training step: addresses, constants, instructions."""
