from types import SimpleNamespace

import pytest
from amaranth.hdl import Module
from amaranth.lib import io, wiring
from sdram_bench import build, traffic

from celosia.hw.lib.component import Component
from celosia.hw.sdram.pads import PAD_CYCLES, Pads

PINS = {"clk_en": 1, "ba": 2, "a": 13, "dqm": 2}
LOW_ACTIVE = ("cs", "ras", "cas", "we")


class Board(Component):
    """A controller behind pads, seen by benches as the controller with the pads' pins."""

    def __init__(self, controller):
        self.controller = controller
        self.part, self.data_bytes = controller.part, controller.data_bytes
        ports = {name: io.SimulationPort("o", width) for name, width in PINS.items()}
        ports |= {name: io.SimulationPort("o", 1, invert=True) for name in LOW_ACTIVE}
        ports["dq"] = io.SimulationPort("io", 16)
        self.ports = SimpleNamespace(**ports)
        super().__init__({"bus": controller.signature.members["bus"]})
        # The chip looks at the levels of the pads: ``oe`` is one for all pins of ``dq``.
        self.pins = SimpleNamespace(
            cke=self.ports.clk_en.o,
            **{f"{name}_n": getattr(self.ports, name).o for name in LOW_ACTIVE},
            ba=self.ports.ba.o,
            a=self.ports.a.o,
            dqm=self.ports.dqm.o,
            dq_o=self.ports.dq.o,
            dq_oe=self.ports.dq.oe[0],
            dq_i=self.ports.dq.i,
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = self.controller
        m.submodules.pads = pads = Pads(self.ports, row_bits=self.part.row_bits)
        wiring.connect(m, wiring.flipped(self.bus), self.controller.bus)
        wiring.connect(m, self.controller.pins, pads.pins)
        return m


@pytest.mark.parametrize("late", [0, 1])
def test_traffic_through_the_pads(rng, late):
    controller, chip = build(data_bytes=8, read_delay=PAD_CYCLES + late)
    traffic(rng, Board(controller), chip, 25, stall=0.2, delay=late)


def test_pads_count(rng):
    controller, chip = build(data_bytes=8, read_delay=0)
    with pytest.raises(AssertionError, match="read of"):
        traffic(rng, Board(controller), chip, 5)
