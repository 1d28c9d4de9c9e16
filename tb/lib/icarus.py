"""Bench in Icarus that applies rows of numbers to a Verilog module, with models of FPGAs."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import prerequisites

from celosia.sim.rtl import parts
from celosia.sim.rtl.simulators import find_icarus

_BENCH = """\
module bench;
  reg clk = 0;
  reg [{wide} - 1:0] rows [0:{count} - 1];
  reg [{wide} - 1:0] row;
  wire [{results} - 1:0] out;
  integer n;
  {module} #({parameters}) module_0 ({pins});
  initial begin
    $readmemb("rows", rows);
    for (n = 0; n < {count}; n = n + 1) begin
      row = rows[n];
      #1 $display("%b", out);
      clk = 1; #1 clk = 0; #1;
    end
  end
endmodule
"""


def printed(folder: Path, *sources: str, year: int = 2012) -> str:
    """Return what module ``bench`` prints, in the Verilog of a year; files are in a folder."""
    compiler = prerequisites.icarus()
    command = [str(compiler), f"-g{year}", "-s", "bench", "-o", "bench.vvp", *sources]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    command = [str(compiler.with_name("vvp")), "-n", "bench.vvp"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


class Player:
    """Module in a bench.

    ``module``: its name; ``folder``: folder of the files; ``inputs``, ``outputs``: width in bits of
    each port; ``parameters``: values of the module's parameters, in Verilog's syntax; ``clocks``:
    pins of the clock; ``single``: ports whose bits are separate pins, a blank between them;
    ``verilog``: source of the module, if it is not a model of ``celosia.sim.rtl.parts``.
    """

    def __init__(
        self,
        module: str,
        folder: Path,
        inputs: dict[str, int],
        outputs: dict[str, int],
        *,
        parameters: Mapping[str, object] | None = None,
        clocks: Sequence[str] = (),
        single: str = "",
        verilog: str = "",
    ) -> None:
        self.module, self.folder, self.verilog = module, folder, verilog
        self.inputs, self.outputs = inputs, outputs
        self.clocks, self.single, self.parameters = clocks, single.split(), parameters or {}

    def _pins(self, ports: dict[str, int], bus: str) -> Iterator[str]:
        bit = 0
        for port, width in ports.items():
            if port in self.single:
                yield from (f".{port}{n}({bus}[{bit + n}])" for n in range(width))
            else:
                yield f".{port}({bus}[{bit + width - 1}:{bit}])"
            bit += width

    def _write(self, rows: Sequence[Sequence[int]]) -> None:
        words = []
        for row in rows:
            values = zip(reversed(row), reversed(self.inputs.values()), strict=True)
            words.append("".join(f"{value % (1 << width):0{width}b}" for value, width in values))
        (self.folder / "rows").write_text("\n".join(words))
        pins = [f".{clock}(clk)" for clock in self.clocks]
        pins += [*self._pins(self.inputs, "row"), *self._pins(self.outputs, "out")]
        text = _BENCH.format(
            wide=sum(self.inputs.values()),
            count=len(rows),
            results=sum(self.outputs.values()),
            module=self.module,
            parameters=", ".join(f".{key}({value})" for key, value in self.parameters.items()),
            pins=", ".join(pins),
        )
        (self.folder / "bench.v").write_text(text + self.verilog)

    def _run(self, program: Path, *arguments: str) -> str:
        done = subprocess.run(
            [str(program), *arguments], cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode or done.stderr:
            raise RuntimeError(f"{program.name}: {(done.stderr or done.stdout)[-500:]}")
        return done.stdout

    def _printed(self, year: str) -> list[str]:
        """Return what the bench prints in the Verilog of a year."""
        compiler = find_icarus()
        sources = ["bench.v", *map(str, parts.models("*"))]
        self._run(compiler, f"-g{year}", "-s", "bench", "-o", "bench.vvp", *sources)
        return self._run(compiler.with_name("vvp"), "-n", "bench.vvp").split("\n")[:-1]

    def play(self, rows: Iterable[Sequence[int]]) -> list[list[int]]:
        """Return the outputs of each cycle, as unsigned numbers.

        ``rows``: A number for each input, for one cycle; numbers wrap.
        Raises ``SimulatorNotFound`` if Icarus is missing.
        Raises ``RuntimeError`` if it refuses the module or warns about it, the module prints text,
        an output is not defined, or Verilog and SystemVerilog differ.
        """
        self._write(list(rows))
        lines, others = self._printed("2012"), self._printed("2005")
        if lines != others:
            raise RuntimeError(f"{self.module}: wanted the same in both languages")
        for line in lines:
            if not set(line) <= {"0", "1"}:
                raise RuntimeError(f"{self.module}: wanted zeros and ones, got {line[-500:]}")
        return [self._split(int(line, 2)) for line in lines]

    def _split(self, bits: int) -> list[int]:
        values = []
        for width in self.outputs.values():
            values.append(bits % (1 << width))
            bits >>= width
        return values
