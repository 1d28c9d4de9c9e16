"""Simulation models in Verilog of what parts have and Verilog has not: multipliers."""

from pathlib import Path

__all__ = ["models"]


def models(part: str) -> list[Path]:
    """Return the Verilog files with the models of a part.

    Parameters
    ----------
    part : str
        Family of the part, for instance ``"ecp5"``; the first word of ``Config.cells``. None have
        models for ``"portable"`` and what else is no part.
    """
    return sorted(Path(__file__).parent.glob(f"{part}.v"))
