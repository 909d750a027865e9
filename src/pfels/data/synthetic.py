"""Synthetic(α, β) of the federated learning benchmark, generated per device on request.

Li et al., Federated optimization in heterogeneous networks (2020), section 5.1. Device k draws a labelling rule
W ∼ N(uₖ, 1), b ∼ N(uₖ, 1) with uₖ ∼ N(0, α), and inputs x ∼ N(vₖ, Σ) of 60 numbers, Σⱼⱼ = j^−1.2, around a centre
vₖ ∼ N(Bₖ, 1) with Bₖ ∼ N(0, β); its labels are argmax(Wᵀx + b). So α is the spread of the rules and β that of the
inputs; both are standard deviations, as in the benchmark's own code. Everything derives from the seed and the device
id: a device that is never requested costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from pfels.arrays import Reals
from pfels.data.examples import Examples
from pfels.data.partition import DeviceBatch
from pfels.seeding import Purpose, Seed, generator

FEATURES, CLASSES = 60, 10
DEVIATIONS = np.arange(1, FEATURES + 1) ** -0.6  # √Σⱼⱼ
MINIMUM, MAXIMUM = 50, 2000  # examples per device; the benchmark has no maximum, but one device could fill the memory
TESTED, TESTS = 200, 50  # maximum number of devices in the test set, and examples of each

# The random streams of a device, distinguished by the round of their address: training, test, and the common rule.
_TRAIN, _TEST, _RULE = 0, 1, 2


@dataclass(frozen=True)
class _Law:
    """The distribution of a device's examples."""

    weights: Reals
    bias: Reals
    centre: Reals


@dataclass(frozen=True)
class SyntheticFederation:
    """Any number of devices. With `iid`, all share one rule and one centre, as in the benchmark's Synthetic-IID."""

    seed: Seed
    devices: int
    per_device: int | None
    alpha: float
    beta: float
    iid: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return (FEATURES,)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return CLASSES

    @cached_property
    def test(self) -> Examples:
        """New examples of up to 200 of the devices, from each device's own distribution.

        They must be the same devices: rules are independent, so nothing can be learned about those of others.
        """
        count = min(self.devices, TESTED)
        who = [self.devices * i // count for i in range(count)]
        parts = [_draw(self._law(k)[0], self._stream(_TEST, k), TESTS) for k in who]
        x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Examples(torch.from_numpy(x), torch.from_numpy(y))

    def examples(self, devices: Sequence[int]) -> DeviceBatch:
        """The examples of these devices; padding repeats the device's own examples, with weight zero."""
        parts = [self._own(k) for k in devices]
        counts = np.array([len(y) for _, y in parts], dtype=np.int64)
        x = np.stack([part[np.resize(np.arange(len(part)), counts.max())] for part, _ in parts])
        y = np.stack([np.resize(part, counts.max()) for _, part in parts])
        return DeviceBatch(torch.from_numpy(x), torch.from_numpy(y), counts)

    def _own(self, device: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        law, stream = self._law(device)
        size = min(int(stream.lognormal(4.0, 2.0)) + MINIMUM, MAXIMUM) if self.per_device is None else self.per_device
        return _draw(law, stream, size)

    def _law(self, device: int) -> tuple[_Law, np.random.Generator]:
        """A device's distribution, and its random stream after drawing it."""
        stream = self._stream(_TRAIN, device)
        if self.iid:
            rule = self._stream(_RULE, 0)
            law = _Law(rule.standard_normal((FEATURES, CLASSES)), rule.standard_normal(CLASSES), np.zeros(FEATURES))
            return law, stream
        u, b = stream.normal(0.0, self.alpha), stream.normal(0.0, self.beta)
        centre = stream.normal(b, 1.0, FEATURES)
        return _Law(stream.normal(u, 1.0, (FEATURES, CLASSES)), stream.normal(u, 1.0, CLASSES), centre), stream

    def _stream(self, kind: int, device: int) -> np.random.Generator:
        return generator(self.seed, Purpose.SYNTHETIC, round=kind, device=device)


def _draw(law: _Law, stream: np.random.Generator, size: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    x = law.centre + DEVIATIONS * stream.standard_normal((size, FEATURES))
    return x.astype(np.float32), np.argmax(x @ law.weights + law.bias, axis=1)
