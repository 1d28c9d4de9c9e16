"""Keras models that train on the core, with Keras's own callbacks."""
