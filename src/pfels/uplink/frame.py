"""How coordinates become OFDM symbols: subcarriers, slots, and the seconds that a round is on the air."""

from dataclasses import dataclass
from typing import Self

SYMBOLS_PER_SLOT = 14  # NR with the normal cyclic prefix (3GPP TS 38.211, table 4.3.2-1)
PREFIX_SHARE = 144 / 2048  # length of the normal prefix over the useful part of a symbol (TS 38.211, 5.3.1)


@dataclass(frozen=True)
class Band:
    """K subcarriers, `spacing_hz` apart, around the carrier."""

    subcarriers: int = 3300
    spacing_hz: float = 15e3

    @property
    def prefix_s(self) -> float:
        """The length of a normal cyclic prefix: delays up to it do no harm."""
        return PREFIX_SHARE / self.spacing_hz


@dataclass(frozen=True)
class Frame:
    """A band of `subcarriers`, `spacing_hz` apart, in slots of `slot_s` with `data_symbols` OFDM symbols for data.

    A resource element, one subcarrier in one symbol, carries one real coordinate. `prefix_share` is the length of the
    cyclic prefix over that of the useful part of a symbol, which is 1/spacing; the paper's reading has none.
    """

    subcarriers: int
    spacing_hz: float
    data_symbols: int
    slot_s: float
    prefix_share: float

    @classmethod
    def paper(cls, *, subcarriers: int, spacing_hz: float, slot_s: float) -> Self:
        """The paper's reading: one coordinate per subcarrier in a slot."""
        return cls(subcarriers, spacing_hz, 1, slot_s, 0.0)

    @classmethod
    def nr(cls, *, subcarriers: int, spacing_hz: float, pilot_symbols: int) -> Self:
        """5G NR: 14 symbols in a slot of 1 ms at 15 kHz, less at wider spacings, some of them pilots.

        >>> Frame.nr(subcarriers=3300, spacing_hz=30e3, pilot_symbols=1).slot_s
        0.0005
        """
        return cls(subcarriers, spacing_hz, SYMBOLS_PER_SLOT - pilot_symbols, 15.0 / spacing_hz, PREFIX_SHARE)

    @property
    def capacity(self) -> int:
        """The number of coordinates that a slot carries."""
        return self.subcarriers * self.data_symbols

    @property
    def bandwidth_hz(self) -> float:
        """The width of the band."""
        return self.subcarriers * self.spacing_hz

    def slots(self, coordinates: int) -> int:
        """The number of slots that carry so many coordinates.

        >>> Frame.paper(subcarriers=3300, spacing_hz=15e3, slot_s=0.01).slots(3301)
        2
        """
        return -(-coordinates // self.capacity)
