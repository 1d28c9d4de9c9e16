"""Front end, compiler, runtime and command line."""
