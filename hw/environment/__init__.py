"""Machine and Python around the project: packages, caches, notebooks."""
