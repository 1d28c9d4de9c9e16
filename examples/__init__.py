"""Examples of Celosia: they import what any user may import."""
