"""Compiler passes, in processing order."""
