"""Bits that flip in the memories of a simulated core."""
