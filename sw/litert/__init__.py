"""Delegate of LiteRT: its interpreter runs on Celosia what the core can run."""
