"""Components and bundles of ports: each port is declared once, where type checkers see it.

A port is assigned in ``__init__``, before that of the base class: ``self.start = In(1)``. The base
class makes the signature of these members, and for a component their signals. Type checkers take
``In`` and ``Out`` for functions that return the signal, view, stream or bundle that a port is.
"""

from typing import TYPE_CHECKING, Any, TypeVar, overload

from amaranth.lib import wiring

if TYPE_CHECKING:
    from enum import Enum
    from typing import Protocol

    from amaranth.hdl import Shape, ShapeLike, Signal
    from amaranth.lib import data, stream

    B = TypeVar("B", bound="Bundle")

    class _Port(Protocol):
        @overload
        def __call__(self, shape: stream.Signature) -> stream.Interface: ...
        @overload
        def __call__(self, shape: B) -> B: ...
        @overload
        def __call__(self, shape: wiring.Signature) -> Any: ...
        @overload
        def __call__(self, shape: data.Layout, *, init: Any = ...) -> data.View: ...
        @overload
        def __call__(
            self, shape: int | range | Shape | type[Enum], *, init: Any = ...
        ) -> Signal: ...
        @overload
        def __call__(self, shape: ShapeLike, *, init: Any = ...) -> Any: ...

    In: _Port
    Out: _Port

else:
    In, Out = wiring.In, wiring.Out

T = TypeVar("T")


def array(port: T, count: int) -> list[T]:
    """Return a port that is a list of ``count`` ports."""
    member: Any = port
    return member.array(count)


def _members(owner: Any) -> dict[str, wiring.Member]:
    """Return the ports that were assigned to a component or bundle, and remove them from it."""
    ports = {name: port for name, port in vars(owner).items() if isinstance(port, wiring.Member)}
    for name in ports:
        delattr(owner, name)
    return ports


class Bundle(wiring.Signature):
    """Signature of ports that belong together; one of the parties declares it ``In``.

    For type checkers it has the ports of its interface.
    """

    def __init__(self) -> None:
        super().__init__(_members(self))

    if TYPE_CHECKING:

        @property
        def signature(self) -> wiring.Signature: ...


class Component(wiring.Component):
    """Component with the ports that were assigned, and those of ``members``."""

    def __init__(self, members: dict[str, wiring.Member] | None = None) -> None:
        super().__init__((_members(self) | (members or {})) or None)
