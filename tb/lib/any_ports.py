"""Component of a test, whose ports type checkers do not see."""

from typing import TYPE_CHECKING, Any

from celosia.hw.lib import component


class Component(component.Component):
    """Component with the ports of a dictionary."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
