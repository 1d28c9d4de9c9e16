"""How a pass refuses a model."""

__all__ = ["CompileError", "UndefinedError", "want"]


class CompileError(ValueError):
    """A model that cannot run on the core; one line with the layer and the reason.

    Attributes
    ----------
    place : int or None
        Number of the operator that the core cannot run, where it is one of them.
    """

    place: int | None = None


class UndefinedError(CompileError):
    """An operator of which the reference kernel's own results are not defined."""


def want(holds: bool, where: str, wanted: str, got: object) -> None:
    """Refuse what does not hold, in one line.

    Raises
    ------
    CompileError
        If it does not hold.
    """
    if not holds:
        raise CompileError(f"{where}: wanted {wanted}, got {got}")
