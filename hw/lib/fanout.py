"""Fan-out of registers: registers without a reset, and copies that synthesis does not merge."""

from typing import Any

from amaranth.hdl import Module, Signal, Value

#: Attributes of equal registers that share the fan-out of one. ``hw/flow`` keeps such registers
#: apart. All of them need the attribute: synthesis merges an equal register without it into one of
#: them.
COPY: Any = {"keep": 1}


def data_registers(m: Module, *ports: Any, attrs: Any = None) -> list[Any]:
    """Return a register without a reset for each port, which it drives.

    For data that are used only while a valid bit is set, and that bit has a reset. The registers
    start at the initial values of the ports.

    Parameters
    ----------
    m : Module
        Gets the assignments.
    *ports : signal or view
        Outputs.
    attrs : dict, optional
        Attributes of the registers, such as ``COPY``.
    """
    registers = []
    for port in ports:
        bits: Any = Value.cast(port)
        name = f"{bits.name}_register"
        registers.append(Signal.like(port, name=name, reset_less=True, attrs=attrs))
    m.d.comb += [port.eq(register) for port, register in zip(ports, registers, strict=True)]
    return registers
