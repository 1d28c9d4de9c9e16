"""Celosia in LiteRT: a delegate for its interpreter."""

from celosia.sw.litert.delegate import Delegate

__all__ = ["Delegate"]
