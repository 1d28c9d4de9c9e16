"""Text of a language model, character by character."""
