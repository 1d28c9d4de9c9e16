"""Version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("celosia")
except PackageNotFoundError:
    __version__ = "not installed"
