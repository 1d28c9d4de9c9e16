"""Simulation models in Verilog of what parts have and Verilog has not.

Multipliers, carry chains and block memory."""

from pathlib import Path

__all__ = ["models"]


def models(part: str) -> list[Path]:
    """Return the Verilog files with the models of a part.

    Parameters
    ----------
    part : str
        Family of the part, for instance ``"ecp5"``; the first word of ``Config.cells``. None have
        models for ``"portable"`` and what else is no part; all are meant by ``"*"``.
    """
    room = Path(__file__).parent
    return sorted({*room.glob(f"{part}.v"), *room.glob(f"{part}_*.v")})
