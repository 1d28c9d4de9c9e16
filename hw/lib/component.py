"""Base class of components whose ports are declared once."""

from typing import TYPE_CHECKING, Any

from amaranth.lib import wiring


class Component(wiring.Component):
    """Component whose signature alone declares its ports.

    Sizes of most ports depend on parameters, so the signature is made in ``__init__``. Type checkers
    take any attribute for a port.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
