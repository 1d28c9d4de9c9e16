"""Base class of components whose ports are declared once, and connections by name."""

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module
from amaranth.lib import wiring


class Component(wiring.Component):
    """Component whose signature alone declares its ports.

    Sizes of most ports depend on parameters, so the signature is made in ``__init__``. Type
    checkers take any attribute for a port.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def drive(m: Module, target: Any, source: Any, names: str) -> None:
    """Drive members of ``target`` by the members of ``source`` that have the same names.

    Parameters
    ----------
    m : Module
        Gets the assignments.
    target, source : component or other interface
        Inputs of a component in ``m`` and its own inputs, or its own outputs and those of one.
    names : str
        Members, separated by spaces; no streams.
    """
    m.d.comb += [getattr(target, name).eq(getattr(source, name)) for name in names.split()]
