"""Delay line."""

from typing import Any

from amaranth.hdl import Module, Signal


def delayed(m: Module, value: Any, cycles: int, *, name: str, reset_less: bool = False) -> list:
    """Return a value by its age: entry ``n`` of the list is ``value`` of ``n`` cycles before.

    Parameters
    ----------
    m : Module
        Gets the registers, which are zero at first.
    value : value or view
        Entry 0.
    cycles : int
        Registers, at least 0.
    name : str
        The registers are ``<name>_1``, ``<name>_2``, ….
    reset_less : bool
        The registers have no reset.
    """
    ages = [value]
    for age in range(1, cycles + 1):
        register = Signal(value.shape(), name=f"{name}_{age}", reset_less=reset_less)
        m.d.sync += register.eq(ages[-1])
        ages.append(register)
    return ages
