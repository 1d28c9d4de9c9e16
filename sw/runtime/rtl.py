"""The simulated RTL as a device."""

from pathlib import Path

from celosia.hw.arch.config import Config
from celosia.hw.arch.driver import RunResult
from celosia.sw.runtime.device import DeviceError


class RtlBackend:
    """Runs programs on the core's compiled Verilog: exact bytes, exact cycles.

    - ``config``: sizes of the core.
    - ``memory_bytes``: external memory.
    - ``latency``: cycles from a request to external memory to its first response.
    - ``bandwidth``: beats of external memory per cycle, above 0 up to 2.
    - ``netlist``: netlist of the core, which runs instead of the generated Verilog; see
      ``celosia.hw.flow.gates``.
    - ``waves``: FST file for the core's signals, the first cycle in it and the one after the last;
      see ``celosia.sim.rtl.waves``. It is complete after ``close``.

    Raises ValueError if latency or bandwidth are out of range; DeviceError if no simulator is
    found, or the model cannot be built.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int,
        latency: int = 32,
        bandwidth: float = 1.0,
        netlist: Path | None = None,
        waves: tuple[Path, int, int] | None = None,
    ) -> None:
        from celosia.sim.rtl.core import RtlDevice, RtlError
        from celosia.sim.rtl.simulators import SimulatorNotFound
        from celosia.sim.rtl.waves import Waves

        self.config = config
        try:
            self.device = RtlDevice(
                config,
                latency=latency,
                bandwidth=bandwidth,
                memory_bytes=memory_bytes,
                netlist=netlist,
                waves=Waves(*waves) if waves else None,
            )
        except (SimulatorNotFound, RtlError, OSError) as error:
            raise DeviceError(f"rtl: {error}") from error

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        self.device.write(address, data)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self.device.read(address, count)

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` instructions at byte ``address``."""
        from celosia.sim.rtl.core import RtlError

        try:
            return self.device.run(address, count)
        except RtlError as error:
            raise DeviceError(f"rtl: {error}") from error

    def close(self) -> None:
        """Release the simulator."""
        self.device.close()
