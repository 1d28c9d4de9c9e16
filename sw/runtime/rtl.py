"""The simulated RTL as devices: exact bytes, exact cycles."""

from typing import Any

from celosia.hw.arch.pod import PodConfig
from celosia.sim.rtl.core import RtlCore, RtlDevice, RtlPod
from celosia.sw.driver.core import Driver
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.pod import PodDriver


class RtlCoreDriver(RtlCore, Driver):
    """A core of a simulated pod."""

    def failure(self, text: str) -> Exception:
        """Return the error of a run with this message."""
        return DeviceError(f"rtl: run: {text}")


class RtlDriver(RtlCoreDriver, RtlDevice):
    """The compiled Verilog of a core; parameters as in ``RtlDevice``."""


class RtlPodDriver(RtlPod, PodDriver[RtlCoreDriver]):
    """The compiled Verilog of a pod; parameters as in ``RtlPod``."""

    core = RtlCoreDriver

    def __init__(self, pod: PodConfig, **options: Any) -> None:
        super().__init__(pod, **options)
        self.divide(self.window)

    def write_shared(self, address: int, data: bytes) -> None:
        """Write bytes that are the same for all cores."""
        self.cores[0].write(address, data)
