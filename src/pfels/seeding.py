"""Every random draw of an experiment, addressed by (seed, purpose, round, device).

Philox is a counter-based generator: its key and counter are an address space, not a state. The seed and the
purpose form the key, the round and the device the upper half of the counter, so each address has a stream of
2**128 blocks of its own, and no draw depends on the order of work, on the number of workers or on a restart.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

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


def generator(seed: int, purpose: Purpose, *, round: int = 0, device: int = 0) -> np.random.Generator:
    """The generator at one address of the seed tree."""
    key: Any = _Key(np.array([seed, purpose], dtype=np.uint64))
    counter = np.array([0, 0, device, round], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key, counter=counter))


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
    seed: int,
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
    seed: int, purpose: Purpose, *, devices: NDArray[np.int64], width: int, round: int = 0
) -> NDArray[np.float32]:
    """`width` standard normal numbers for each of `devices`, one row each, addressed as those of `scalars`."""

    def draw(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
        return generator.standard_normal((count, width), dtype=np.float32)

    return _by_block(draw, np.empty((len(devices), width), np.float32), seed, purpose, devices=devices, round=round)


def _by_block(
    draw: Callable[[np.random.Generator, int], NDArray[D]],
    numbers: NDArray[D],
    seed: int,
    purpose: Purpose,
    *,
    devices: NDArray[np.int64],
    round: int,
) -> NDArray[D]:
    offsets = devices % BLOCK
    if len(devices) and devices.max() < BLOCK:  # all in the first block, which is all there is of a thousand devices
        return draw(generator(seed, purpose, round=round), int(offsets.max()) + 1)[offsets]
    blocks, block = np.unique(devices // BLOCK, return_inverse=True)
    for i, first in enumerate((blocks * BLOCK).tolist()):
        inside = np.flatnonzero(block == i)
        places = offsets[inside]
        # No more than is asked for: numbers come one after the other, so fewer draws are the beginning of more.
        drawn = draw(generator(seed, purpose, round=round, device=first), int(places.max()) + 1)
        numbers[inside] = drawn[places]
    return numbers
