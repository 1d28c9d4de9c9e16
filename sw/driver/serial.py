"""A core, or a pod of cores, on a line as a device."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from celosia.hw.arch.commands import require_place
from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PAGE, PodConfig
from celosia.hw.arch.registers import MAGIC, OFFSETS, VERSION
from celosia.sw.driver.core import Driver
from celosia.sw.driver.device import DeviceError
from celosia.sw.driver.link import HostLink
from celosia.sw.driver.pod import PodDriver

#: Most bits per second that a port is set to.
_MOST_BAUD = (1 << 31) - 1
#: Bits on the line for a byte.
_BITS = 10
#: Seconds for which a port may take nothing; the bytes it did not take are lost then.
_WRITE_SECONDS = 0.4
#: Seconds that a soft reset may take.
_RESET_SECONDS = 1.0
#: Between two looks whether a program has ended, in seconds.
_POLL_SECONDS = 0.002


class SerialTransport:
    """A serial port, or any other that pyserial opens by its URL, pseudo-terminals included.

    Parameters
    ----------
    port : str
        Path or URL.
    baud : int
        Bits per second, 1 to 2**31 - 1.

    Raises
    ------
    OSError
        If it cannot be opened, or not at this speed.
    """

    def __init__(self, port: str, *, baud: int) -> None:
        import serial

        if not 1 <= baud <= _MOST_BAUD:
            raise OSError(f"{port}: wanted 1 to {_MOST_BAUD} bits per second, got {baud}")
        self.seconds_per_byte = _BITS / baud
        self._busy = serial.SerialTimeoutException
        try:
            self._port: Any = serial.serial_for_url(
                port, baudrate=baud, timeout=0, write_timeout=_WRITE_SECONDS, exclusive=True
            )
        except ValueError as error:
            raise OSError(str(error)) from None
        # An adapter's driver otherwise delays short responses, usually by 16 ms.
        with suppress(AttributeError, NotImplementedError, OSError, ValueError):
            self._port.set_low_latency_mode(True)
        self._port.reset_input_buffer()

    def send(self, data: bytes) -> None:
        """Send, at most what the port takes; raises OSError when the line is closed.

        Bytes that a busy port does not take are lost, as on the line: ``HostLink`` repeats them.
        """
        with suppress(self._busy):
            self._port.write(data)

    def receive(self, seconds: float) -> bytes:
        """Return the bytes that arrive, at least one unless ``seconds`` pass; raises OSError."""
        self._port.timeout = seconds
        first = self._port.read(1)
        if not first:
            return b""
        self._port.timeout = 0
        return first + self._port.read(1 << 12)

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Close the port."""
        with suppress(OSError):
            self._port.close()


def open_port(port: str, baud: int) -> SerialTransport:
    """Return the line at a port, see ``SerialTransport``; raises DeviceError."""
    try:
        return SerialTransport(port, baud=baud)
    except ImportError:
        raise DeviceError("serial: wanted the package pyserial, found none") from None
    except OSError as error:
        raise DeviceError(f"serial: {error}") from None


class LineDevice(Driver):
    """Core that is reached over a line.

    Parameters
    ----------
    config : Config
        Sizes that the core must have.
    memory_bytes : int
        External memory that will be used.
    link : HostLink
        The line; closed when the core cannot be used.
    number, window : int
        Number of the core in a pod, and the bytes of memory that each core has.

    Raises
    ------
    DeviceError
        If nothing responds, or it is no core of this configuration, or it has too little memory.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int,
        link: HostLink,
        *,
        number: int = 0,
        window: int | None = None,
    ) -> None:
        self.config = config
        self.link = link
        self.name = link.name
        self.number = number
        window = link.memory_bytes if window is None else window
        self.base = number * window
        self.memory_bytes = min(window, link.memory_bytes - self.base)
        self.program_bytes = memory_bytes
        try:
            self._identify(memory_bytes)
            self.make_idle()
        except BaseException:
            link.close()
            raise

    def _identify(self, memory_bytes: int) -> None:
        identity = {"magic": MAGIC, "version": VERSION, "fingerprint": self.config.fingerprint}
        got = self.read_registers(OFFSETS["magic"], len(identity))
        for (name, value), register in zip(identity.items(), got, strict=True):
            # A later minor version has more registers.
            later = name == "version" and register > value and register >> 16 == value >> 16
            if value != register and not later:
                text = f"{self.name}: {name}: wanted {value:#x}, got {register:#x}"
                if name == "fingerprint":
                    text += f"; it is not a {self.config.name!r} core"
                raise DeviceError(text)
        if memory_bytes > self.memory_bytes:
            have = self.link.memory_bytes
            wanted_bytes = self.base + memory_bytes
            raise DeviceError(
                f"{self.name}: wanted {wanted_bytes} bytes of external memory, the board has {have}"
            )

    def read_registers(self, offset: int, count: int = 1) -> list[int]:
        """Return ``count`` registers from byte ``offset`` on; raises DeviceError."""
        return self.link.read_registers(self.number * PAGE + offset, count)

    def write_registers(self, offset: int, *values: int) -> None:
        """Write registers from byte ``offset`` on, each exactly once; raises DeviceError."""
        self.link.write_registers(self.number * PAGE + offset, *values)

    def pauses(self, *, running: bool) -> Iterator[None]:
        """Yield every ``_POLL_SECONDS`` of a program; raises DeviceError at a reset."""
        end = self.link.transport.now() + _RESET_SECONDS
        while running or self.link.transport.now() < end:
            yield
            self.link.pause(_POLL_SECONDS if running else 0)
        raise self.failure("wanted the core to become idle, it does not")

    def failure(self, text: str) -> Exception:
        """Return that error."""
        return DeviceError(f"{self.name}: {text}")

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        require_place(address, len(data), self.memory_bytes)
        self.link.write(self.base + address, data)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        require_place(address, count, self.memory_bytes)
        return self.link.read(self.base + address, count)

    def close(self) -> None:
        """Close the line."""
        self.link.close()


class LinePod(PodDriver[LineDevice]):
    """Pod that is reached over a line.

    Parameters
    ----------
    pod : PodConfig
        Sizes that the pod must have.
    memory_bytes : int
        External memory of each core.
    link : HostLink
        The line; closed when the pod cannot be used.

    Raises
    ------
    DeviceError
        As ``LineDevice``.
    """

    def __init__(self, pod: PodConfig, memory_bytes: int, link: HostLink) -> None:
        self.config = pod.core
        self.link = link
        window = 1 << (memory_bytes - 1).bit_length()
        # The last core needs the most memory: it is opened first.
        opened = [
            LineDevice(pod.core, memory_bytes, link, number=n, window=window)
            for n in reversed(range(pod.cores))
        ]
        self.cores = tuple(reversed(opened))
        self.divide(window)

    def set_pod_register(self, offset: int, value: int) -> None:
        """Write a register of the pod; raises DeviceError."""
        self.link.write_registers(len(self.cores) * PAGE + offset, value)

    def write_shared(self, address: int, data: bytes) -> None:
        """Write bytes that are the same for all cores."""
        self.cores[0].write(address, data)

    def close(self) -> None:
        """Close the line."""
        self.link.close()
