"""Training of networks on the core, in integers; see ``docs/design/training.md``."""
