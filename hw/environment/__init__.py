"""Machine and Python around the project: packages and caches."""
