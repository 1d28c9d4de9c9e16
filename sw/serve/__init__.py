"""A page for drawings, which the core classifies."""
