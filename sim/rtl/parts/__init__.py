"""Simulation models in Verilog of FPGA primitives: multipliers, carry chains, block memory."""

from pathlib import Path


def models(part: str) -> list[Path]:
    """Return the Verilog files with the models of a family of FPGAs.

    ``part``: name of the family, for instance ``"ecp5"``; the first word of ``Config.cells``.
    ``"*"`` means all families; unknown names, such as ``"portable"``, have no models.
    """
    folder = Path(__file__).parent
    return sorted({*folder.glob(f"{part}.v"), *folder.glob(f"{part}_*.v")})
