"""Core or pod with the names of ports that tools of FPGA vendors know as AXI."""

from typing import Any

from amaranth.hdl import Instance, Module, Value

from celosia.hw.lib.component import Component, In

#: Names of ports that differ in more than their underscores.
_NAMES = {"clk": "aclk", "rst": "aresetn"}


class StandardAxi(Component):
    """Wrapper of a core or a pod: ``m_axi_awaddr`` instead of ``m_axi__awaddr``.

    Parameters
    ----------
    inner : Component
        ``Top`` or ``Pod``; an instance of the module that is written of it.
    module : str
        Name of that module.

    Members
    -------
    aclk, aresetn : In(1)
        Clock, and synchronous reset, active low.
    m_axi_*, s_axi_*, irq
        Ports of the core or the pod.

    Timing
    ------
    Wires and one inverter.
    """

    def __init__(self, inner: Component, module: str) -> None:
        self.module = module
        self._ports = {
            "__".join(map(str, path)): (Value.cast(value).shape(), member.flow)
            for path, member, value in inner.signature.flatten(inner)
        }
        super().__init__(
            {self.name(port): flow(shape) for port, (shape, flow) in self._ports.items()}
        )

    @staticmethod
    def name(port: str) -> str:
        """Return the name of a port of the core, or the pod."""
        return _NAMES.get(port, port.replace("__", "_").replace("s_axil", "s_axi"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports: dict[str, Any] = {
            f"{'i' if flow is In else 'o'}_{port}": getattr(self, self.name(port))
            for port, (_, flow) in self._ports.items()
        }
        reset: Any = getattr(self, _NAMES["rst"])
        ports["i_rst"] = ~reset
        m.submodules.core = Instance(self.module, **ports)
        return m
