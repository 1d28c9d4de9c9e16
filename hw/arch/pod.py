"""Pod of cores: sizes, and registers."""

from dataclasses import dataclass

from celosia.hw.arch.config import Config
from celosia.hw.arch.registers import REGISTER_ADDRESS_BITS

#: Bytes of the registers of one core, and of those of the pod after the last core's.
PAGE = 1 << REGISTER_ADDRESS_BITS

#: Registers of the pod, in its page: the number of cores; a bit for each core that works; the first
#: private address, and the one after the last; the base address of the first core.
CORES, WORKING, PRIVATE, BASES = 0x000, 0x004, 0x008, 0x100

#: Most cores of a pod.
MOST_CORES = 16


@dataclass(frozen=True)
class PodConfig:
    """Sizes of a pod.

    Parameters
    ----------
    core : Config
        Sizes of each core.
    cores : int
        Number of cores: a power of two, 2 to ``MOST_CORES``.
    ports : int
        Number of memory ports: a power of two, at most ``cores``. Each serves ``cores // ports``
        cores.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    core: Config
    cores: int
    ports: int = 1

    def __post_init__(self) -> None:
        for name, most in (("cores", MOST_CORES), ("ports", self.cores)):
            value, least = getattr(self, name), 2 if name == "cores" else 1
            if not least <= value <= most or value & (value - 1):
                allowed = f"a power of two, {least} to {most}"
                raise ValueError(f"pod: {name}: wanted {allowed}, got {value}")

    @property
    def address_bits(self) -> int:
        """Bits of an address of a register."""
        return REGISTER_ADDRESS_BITS + self.cores.bit_length()

    @property
    def each(self) -> int:
        """Cores of a memory port."""
        return self.cores // self.ports

    @property
    def id_bits(self) -> int:
        """Bits of a transaction number on a memory port; writes have the core's above its own."""
        return self.each.bit_length()
