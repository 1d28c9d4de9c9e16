"""Spares nets loads: data that no reset touches, and copies of registers that synthesis keeps apart."""

from typing import Any

from amaranth.hdl import Signal, Value

#: Attributes of a register that is one of several with the same content, each for loads of its own.
#: ``hw/flow`` sees to it that they are not merged; an equal register without is merged into one of them.
COPY: Any = {"keep": 1}


def reset_less(interface: Any, *members: str, attrs: Any = None) -> None:
    """Make registers of an interface that no reset touches; they still start at their initial value.

    For data whose meaning depends on something beside it that is reset, such as a valid bit.

    Parameters
    ----------
    interface : component, stream or other interface
        Its signals are replaced, so this comes right after ``super().__init__``.
    *members : str
        Its members, signals or views.
    attrs : dict, optional
        Attributes of the signals, such as ``COPY``.
    """
    for member in members:
        signal = getattr(interface, member)
        bits: Any = Value.cast(signal)
        setattr(
            interface, member, Signal.like(signal, name=bits.name, reset_less=True, attrs=attrs)
        )
