"""Every random draw of an experiment, addressed by (seed, purpose, round, device).

Philox is a counter-based generator: its key and counter are an address space, not a state. The seed and the
purpose form the key, the round and the device the upper half of the counter, so each address has a stream of
2**128 blocks of its own, and no draw depends on the order of work, on the number of workers or on a restart.

Philox hides no key: whoever could compute it back from public numbers, such as an index set, would have the seed and
with it all other draws. A `Secret` therefore hashes the whole address, and each address has a key of its own.
"""

import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self, TypeVar

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

BLOCK = 1024

D = TypeVar("D", bound=np.generic)
TUNING_SEEDS = (1000, 1001)  # settings are chosen on them, and no result is reported for them


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every result: append, never renumber."""

    PARTITION = 1
    MODEL = 2
    COHORT = 3
    MASK = 4
    POWER = 5
    GAIN = 6
    PHASE = 7
    BATCHES = 8
    CHANNEL_NOISE = 9
    DEVICE_NOISE = 10
    SYNTHETIC = 11
    TURNS = 12
    BLOCKS = 13
    ANTENNA = 14
    GAIN_ERROR = 15
    PHASE_ERROR = 16
    TAPS = 17
    TIMING_ERROR = 18
    INTERLEAVER = 19
    CANARY = 20
    EFFECT = 21


@dataclass(frozen=True)
class Secret:
    """A seed that nobody can guess: 256 bits from the operating system. It does not show in a repr."""

    key: bytes = field(repr=False)

    BYTES = 32

    def __post_init__(self) -> None:
        if len(self.key) != self.BYTES:
            raise ValueError(f"a secret seed of {len(self.key)} bytes; it must have {self.BYTES}")

    @classmethod
    def drawn(cls) -> Self:
        """A new one."""
        return cls(secrets.token_bytes(cls.BYTES))

    @property
    def label(self) -> int:
        """A number below 2**63 to tell secrets apart by; everybody may see it, since nothing else follows from it."""
        return int.from_bytes(self._hashed(b"label")[:8], "little") >> 1

    def words(self, purpose: Purpose, *, round: int, device: int) -> NDArray[np.uint64]:
        """256 bits for one address: HMAC-SHA256 of the address under the secret."""
        return np.frombuffer(self._hashed(struct.pack("<3Q", purpose, round, device)), dtype="<u8").astype(np.uint64)

    def _hashed(self, message: bytes) -> bytes:
        return hmac.digest(self.key, message, "sha256")


Seed = int | Secret


def generator(seed: Seed, purpose: Purpose, *, round: int = 0, device: int = 0) -> np.random.Generator:
    """The generator at one address of the seed tree."""
    if isinstance(seed, Secret):
        words = seed.words(purpose, round=round, device=device)
        key, counter = words[:2], np.array([0, 0, words[2], words[3]], dtype=np.uint64)
    else:
        key = np.array([seed, purpose], dtype=np.uint64)
        counter = np.array([0, 0, device, round], dtype=np.uint64)
    handed: Any = _Key(key)
    return np.random.Generator(np.random.Philox(handed, counter=counter))


class _Key(ISeedSequence):
    """A Philox key that is handed over as it is. `Philox(key=…)` does the same at three times the cost: it asks the
    operating system for randomness first, and then makes no use of it."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> NDArray[np.uint64]:
        """The key."""
        return self._words


def scalars(
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]],
    seed: Seed,
    purpose: Purpose,
    *,
    devices: NDArray[np.int64],
    round: int = 0,
) -> NDArray[np.float64]:
    """One number for each of `devices`, each a function of (seed, purpose, round, device) alone.

    Neighbours share a stream: device i takes the (i mod 1024)-th number of the stream addressed by the first
    device of its block. One generator then serves a cohort out of a thousand devices, and a cohort out of a
    million touches only the blocks it falls in.
    """
    return _by_block(draw, np.empty(len(devices)), seed, purpose, devices=devices, round=round)


def normal_rows(
    seed: Seed, purpose: Purpose, *, devices: NDArray[np.int64], width: int, round: int = 0
) -> NDArray[np.float32]:
    """`width` standard normal numbers for each of `devices`, one row each, addressed as those of `scalars`."""

    def draw(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
        return generator.standard_normal((count, width), dtype=np.float32)

    return _by_block(draw, np.empty((len(devices), width), np.float32), seed, purpose, devices=devices, round=round)


def _by_block(
    draw: Callable[[np.random.Generator, int], NDArray[D]],
    numbers: NDArray[D],
    seed: Seed,
    purpose: Purpose,
    *,
    devices: NDArray[np.int64],
    round: int,
) -> NDArray[D]:
    if not len(devices):
        return numbers
    offsets, first = devices % BLOCK, int(devices[0]) // BLOCK * BLOCK
    if first <= devices.min() and devices.max() < first + BLOCK:  # one block, which is all there is of a thousand
        return draw(generator(seed, purpose, round=round, device=first), int(offsets.max()) + 1)[offsets]
    blocks, block = np.unique(devices // BLOCK, return_inverse=True)
    for i, first in enumerate((blocks * BLOCK).tolist()):
        inside = np.flatnonzero(block == i)
        places = offsets[inside]
        # No more than is asked for: numbers come one after the other, so fewer draws are the beginning of more.
        drawn = draw(generator(seed, purpose, round=round, device=first), int(places.max()) + 1)
        numbers[inside] = drawn[places]
    return numbers
