"""How a pass refuses a model."""

__all__ = ["CompileError", "UndefinedError", "labelled", "want"]


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


def labelled(error: UndefinedError, label: str) -> UndefinedError:
    """Return an error that names its operator."""
    text = str(error)
    return error if text.startswith(label) else UndefinedError(f"{label}: {text}")


def want(holds: bool, where: str, wanted: str, got: object) -> None:
    """Refuse what does not hold, in one line.

    Raises
    ------
    CompileError
        If it does not hold.
    """
    if not holds:
        raise CompileError(f"{where}: wanted {wanted}, got {got}")
