"""Delay lines: of registers, which show each age of a value, and of a memory."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib.memory import Memory

from celosia.hw.lib import race
from celosia.hw.lib.component import Component, In, Out


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


class DelayLine(Component):
    """Delay line in a memory, for values that are not looked at on their way.

    Parameters
    ----------
    shape : ShapeLike
        Value.
    cycles : int
        Delay, at least 2.

    Members
    -------
    i, o : In(shape), Out(shape)
        Value, and that of ``cycles`` cycles before, if there was no reset in between.

    Raises
    ------
    ValueError
        If ``cycles`` is below 2.
    """

    def __init__(self, shape: ShapeLike, cycles: int) -> None:
        if cycles < 2:
            raise ValueError(f"cycles: wanted at least 2, got {cycles}")
        self.shape = shape
        self.cycles = cycles
        self.i = In(shape)
        self.o = Out(shape)
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = 1 << (self.cycles - 1).bit_length()
        # Each place is read in the cycle before its value is due, and written later than that.
        m.submodules.values = values = Memory(
            shape=self.shape, depth=depth, init=[], attrs=race.UNDEFINED
        )
        write, read = values.write_port(), values.read_port()
        place = Signal(range(depth))
        m.d.sync += place.eq(place + 1)
        m.d.comb += [
            write.en.eq(1),
            write.addr.eq(place),
            write.data.eq(self.i),
            read.addr.eq(place + (depth - self.cycles + 1)),
            self.o.eq(read.data),
        ]
        return m
