"""A page on which one draws, and sees how the core classifies it."""
