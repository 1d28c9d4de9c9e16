"""Fan-out of registers: registers without a reset, and copies that synthesis does not merge."""

from typing import Any

from amaranth.hdl import Signal, Value

#: Attributes of a register that is a copy of another one, made to halve the fan-out. ``hw/flow``
#: keeps such registers apart; an equal register without the attribute is merged into one of them.
COPY: Any = {"keep": 1}


def reset_less(interface: Any, *members: str, attrs: Any = None) -> None:
    """Remove the reset of registers of an interface; they still start at their initial value.

    For data that are used only while a valid bit is set, and that bit has a reset.

    Parameters
    ----------
    interface : component, stream or other interface
        Its signals are replaced: call this directly after ``super().__init__``.
    *members : str
        Names of its members, signals or views.
    attrs : dict, optional
        Attributes of the signals, such as ``COPY``.
    """
    for member in members:
        signal = getattr(interface, member)
        bits: Any = Value.cast(signal)
        setattr(
            interface, member, Signal.like(signal, name=bits.name, reset_less=True, attrs=attrs)
        )
