"""A core behind a serial line as a device."""

import time
from contextlib import suppress
from typing import Any

from celosia.hw.arch import isa
from celosia.hw.arch.config import Config
from celosia.hw.arch.registers import (
    COUNTERS,
    COUNTERS_PER_UNIT,
    MAGIC,
    OFFSETS,
    VERSION,
    Control,
    Interrupt,
    Status,
    activity_names,
)
from celosia.sw.runtime.device import DeviceError, RunResult
from celosia.sw.runtime.link import HostLink, Transport

__all__ = ["BAUD", "SerialDevice", "SerialTransport", "open_serial"]

#: What the boards' gateware uses.
BAUD = 3_000_000
#: Bits on the line for a byte.
_BITS = 10
#: Seconds for which a port may take nothing.
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
        Bits per second.

    Raises
    ------
    OSError
        If it cannot be opened.
    """

    def __init__(self, port: str, *, baud: int = BAUD) -> None:
        import serial

        self.seconds_per_byte = _BITS / baud
        try:
            self._port: Any = serial.serial_for_url(
                port, baudrate=baud, timeout=0, write_timeout=_WRITE_SECONDS, exclusive=True
            )
        except ValueError as error:
            raise OSError(str(error)) from None
        # An adapter's driver otherwise holds short answers back, 16 ms as a rule.
        with suppress(AttributeError, NotImplementedError, OSError, ValueError):
            self._port.set_low_latency_mode(True)
        self._port.reset_input_buffer()

    def send(self, data: bytes) -> None:
        """Send; raises OSError when the line is gone."""
        self._port.write(data)

    def receive(self, seconds: float) -> bytes:
        """Return what arrives, at least a byte unless ``seconds`` pass; raises OSError."""
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
        """Give the port back."""
        with suppress(OSError):
            self._port.close()


def open_serial(port: str, config: Config, memory_bytes: int) -> "SerialDevice":
    """Return the core behind a serial port.

    Parameters
    ----------
    port : str
        Path or URL, then ``@`` and the bits per second if they are not ``BAUD``.
    config : Config
        Sizes that its core must have.
    memory_bytes : int
        External memory that will be used.

    Raises
    ------
    DeviceError
        If the port cannot be opened, nobody answers, or the core is of another configuration.
    """
    path, _, speed = port.rpartition("@")
    if not path or not speed.isdecimal():
        path, speed = port, str(BAUD)
    try:
        transport = SerialTransport(path, baud=int(speed))
    except ImportError:
        raise DeviceError("serial: wanted the package pyserial, found none") from None
    except OSError as error:
        raise DeviceError(f"serial: {error}") from None
    return SerialDevice(config, memory_bytes, transport, name=f"serial {path}")


class SerialDevice:
    """Runs programs on a core that is reached over a line.

    Parameters
    ----------
    config : Config
        Sizes that the core must have.
    memory_bytes : int
        External memory that will be used.
    transport : Transport
        The line; closed when the device cannot be opened.
    name : str
        What messages call it.
    window : int, optional
        See ``HostLink``.

    Raises
    ------
    DeviceError
        If nobody answers, or it is no core of this configuration, or it has too little memory.
    """

    def __init__(
        self,
        config: Config,
        memory_bytes: int,
        transport: Transport,
        *,
        name: str = "serial",
        window: int | None = None,
    ) -> None:
        self.config = config
        self.name = name
        try:
            self.link = HostLink(transport, name=name, window=window)
            self._identify(memory_bytes)
            if self._status() & (Status.BUSY | Status.ERROR | Status.DRAINING):
                self._reset()
        except BaseException:
            transport.close()
            raise

    def _identify(self, memory_bytes: int) -> None:
        wanted = {"magic": MAGIC, "version": VERSION, "fingerprint": self.config.fingerprint}
        got = self.link.read_registers(OFFSETS["magic"], len(wanted))
        for (what, value), said in zip(wanted.items(), got, strict=True):
            if value != said:
                text = f"{self.name}: {what}: wanted {value:#x}, the core says {said:#x}"
                if what == "fingerprint":
                    text += f"; it is not a {self.config.name!r} core"
                raise DeviceError(text)
        there = self.link.info.memory_bytes
        if there and memory_bytes > there:
            raise DeviceError(
                f"{self.name}: wanted {memory_bytes} bytes of external memory, the board has {there}"
            )

    def _status(self) -> Status:
        return Status(self.link.read_registers(OFFSETS["status"])[0] & 0xF)

    def _control(self, what: Control) -> None:
        self.link.write_registers(OFFSETS["control"], what.value)

    def _reset(self) -> None:
        self._control(Control.RESET)
        start = self.link.transport.now()
        while self._status() & (Status.BUSY | Status.ERROR | Status.DRAINING):
            if self.link.transport.now() > start + _RESET_SECONDS:
                raise DeviceError(f"{self.name}: wanted the core to become idle, it does not")

    def write(self, address: int, data: bytes) -> None:
        """Write to external memory, from byte ``address`` on."""
        self.link.write(address, data)

    def read(self, address: int, count: int) -> bytes:
        """Return ``count`` bytes of external memory."""
        return self.link.read(address, count)

    def run(self, address: int, count: int) -> RunResult:
        """Run the program of ``count`` instructions at byte ``address``.

        After an error the core is reset softly, so that the next program runs.

        Raises
        ------
        ValueError
            If ``count`` is not 1 to 65535.
        DeviceError
            If the line is gone.
        """
        if not 1 <= count < 1 << 16:
            raise ValueError(f"program: wanted 1 to {(1 << 16) - 1} instructions, got {count}")
        assert OFFSETS["program_length"] == OFFSETS["program_address"] + 4
        self.link.write_registers(OFFSETS["program_address"], address, count)
        # Clearing takes fewer cycles than the next frame.
        self._control(Control.CLEAR)
        self._control(Control.START)
        while not (status := self._status()) & (Status.DONE | Status.ERROR):
            time.sleep(_POLL_SECONDS)
        error = None
        if Status.ERROR in status:
            code, unit, index = self.link.read_registers(OFFSETS["error_code"], 3)
            error = (isa.Error(code), isa.Unit(unit), index)
        (cycles,) = self.link.read_registers(OFFSETS["cycles"])
        counters = self._counters()
        if error is not None:
            self._reset()
        self.link.write_registers(OFFSETS["interrupt"], (Interrupt.DONE | Interrupt.ERROR).value)
        return RunResult(cycles, counters, error)

    def _counters(self) -> dict[str, dict[str, int]]:
        names = activity_names()
        values = self.link.read_registers(COUNTERS, COUNTERS_PER_UNIT * len(isa.Unit))
        counters: dict[str, dict[str, int]] = {}
        for unit in isa.Unit:
            base = unit.value * COUNTERS_PER_UNIT
            counts = {name: values[base + place] for place, name in names.items()}
            counters[unit.name.lower()] = {name: value for name, value in counts.items() if value}
        return counters

    def close(self) -> None:
        """Give the line back."""
        self.link.close()
