"""Banks of the large memories: one write port, one read port."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import ClockSignal, Elaboratable, Instance, Module, Shape, Signal
from amaranth.lib.memory import Memory

from celosia.hw.lib import race

#: Most bits of all banks of a memory that are converted word by word: those of `edge` with parity.
MOST = 9 << 17

#: Name of the module of the banks of larger memories.
NAME = "celosia_bank"

#: Their Verilog. Amaranth would write each word.
TEXT = f"""\
module {NAME}(clk, we, wa, wd, ra, rd);
  parameter WIDTH = 8, DEPTH = 2, BITS = 1;
  input clk, we;
  input [BITS - 1:0] wa, ra;
  input [WIDTH - 1:0] wd;
  output reg [WIDTH - 1:0] rd = 0;
  (* no_rw_check = 1 *)
  reg [WIDTH - 1:0] words [0:DEPTH - 1];
`ifndef SYNTHESIS
  integer n;
  initial for (n = 0; n < DEPTH; n = n + 1) words[n] = 0;
`endif
  always @(posedge clk) begin
    if (we) words[wa] <= wd;
    rd <= words[ra];
  end
endmodule
"""


class LargeBank(Elaboratable):
    """Bank as an instance of ``NAME``, with the ports of ``amaranth.lib.memory.Memory``.

    ``shape``: of a word; ``depth``: words. The word read is undefined if it is written in the same
    cycle.
    """

    def __init__(self, *, shape: Shape, depth: int) -> None:
        self.shape = shape
        self.depth = depth
        self.bits = (depth - 1).bit_length()

        def port() -> SimpleNamespace:
            addr = Signal(self.bits, name="addr")
            return SimpleNamespace(addr=addr, data=Signal(shape, name="data"), en=Signal(name="en"))

        self._read, self._write = port(), port()

    def read_port(self) -> SimpleNamespace:
        """Return the read port: ``data`` follows ``addr`` by one cycle."""
        return self._read

    def write_port(self) -> SimpleNamespace:
        """Return the write port."""
        return self._write

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.bank = Instance(
            NAME,
            p_WIDTH=self.shape.width,
            p_DEPTH=self.depth,
            p_BITS=self.bits,
            i_clk=ClockSignal(),
            i_we=self._write.en,
            i_wa=self._write.addr,
            i_wd=self._write.data,
            i_ra=self._read.addr,
            o_rd=self._read.data,
        )
        return m


def bank_of(shape: Any, *, depth: int, banks: int) -> Any:
    """Return one of ``banks`` equal banks of a memory, whose words have a ``shape``."""
    if Shape.cast(shape).width * depth * banks > MOST:
        return LargeBank(shape=Shape.cast(shape), depth=depth)
    return Memory(shape=shape, depth=depth, init=[], attrs=race.UNDEFINED)
