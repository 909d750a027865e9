"""Arrays to devices: IID, Dirichlet label skew, or by writer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.data.examples import Dataset, Examples
from pfels.errors import InputError

Indices = NDArray[np.int64]
HELD_OUT = 10  # one example in so many is kept for the test, where the data have no test set


@dataclass(frozen=True)
class Shard:
    """The examples of some devices, padded to the longest: x (r, n, …), y (r, n), and each device's own count (r,)."""

    x: Tensor
    y: Tensor
    counts: NDArray[np.int64]


class Federation(Protocol):
    """Devices with examples of their own, and examples of nobody's to test with."""

    @property
    def devices(self) -> int:
        """How many devices there are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""

    @property
    def classes(self) -> int:
        """How many classes there are."""

    @property
    def test(self) -> Examples:
        """Examples that no device trains on."""

    def examples(self, devices: Sequence[int]) -> Shard:
        """The examples of these devices; padding repeats an example of the device itself and carries no weight."""


@dataclass(frozen=True)
class ArrayFederation:
    """Training examples spread over devices. Nothing is copied before a device is asked for its own."""

    dataset: Dataset
    parts: tuple[Indices, ...]
    test: Examples

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.dataset.shape

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.dataset.classes

    def examples(self, devices: Sequence[int]) -> Shard:
        """The examples of these devices; padding repeats an example of the device itself and carries no weight."""
        parts = [self.parts[i] for i in devices]
        counts = np.array([len(part) for part in parts], dtype=np.int64)
        rows = np.stack([np.resize(part, counts.max()) for part in parts])
        return Shard(*self.dataset.train.take(torch.from_numpy(rows)), counts)


def split(
    dataset: Dataset, generator: np.random.Generator, *, kind: str, devices: int, per_device: int | None, alpha: float
) -> ArrayFederation:
    """The federation of that kind. `per_device` is how many examples a device has; by writer, how many it needs.

    Where the data have no test set, a tenth of each device's examples, drawn at random, goes into a common one.
    """
    examples = len(dataset.train)
    if kind == "writer":
        parts = _by_writer(dataset.writers, generator, devices=devices, at_least=per_device or 1)
    else:
        sizes = _sizes(examples, devices, per_device)
        order = generator.permutation(examples)
        if kind == "iid":
            parts = np.split(order[: sizes.sum()], np.cumsum(sizes)[:-1])
        else:
            parts = _dirichlet(dataset.train.y.numpy()[order], order, sizes, generator, alpha=alpha)
    if dataset.test is not None:
        return ArrayFederation(dataset, tuple(parts), dataset.test)
    parts, held_out = _hold_out(parts, generator)
    rows, train = torch.from_numpy(held_out), dataset.train
    return ArrayFederation(dataset, tuple(parts), replace(train, x=train.x[rows], y=train.y[rows]))


def _hold_out(parts: Sequence[Indices], generator: np.random.Generator) -> tuple[list[Indices], Indices]:
    """What each device trains on, and the tenth of all devices' examples that is kept for the test."""
    shuffled = [generator.permutation(part) for part in parts]
    held = [len(part) // HELD_OUT for part in parts]
    if not any(held):
        raise InputError(f"data.per_device: no device has the {HELD_OUT} examples it takes to keep one for the test")
    train = [np.sort(part[n:]) for part, n in zip(shuffled, held, strict=True)]
    return train, np.concatenate([part[:n] for part, n in zip(shuffled, held, strict=True)])


def _sizes(examples: int, devices: int, per_device: int | None) -> Indices:
    """How many examples each device gets: `per_device`, or all of them shared out evenly."""
    if devices * (per_device or 1) > examples:
        raise InputError(
            f"data.devices = {devices}: with {per_device or 'at least 1'} examples each they need "
            f"{devices * (per_device or 1)}, but the data hold {examples}"
        )
    if per_device is not None:
        return np.full(devices, per_device, dtype=np.int64)
    return np.full(devices, examples // devices, dtype=np.int64) + (np.arange(devices) < examples % devices)


def _dirichlet(
    labels: Indices, order: Indices, sizes: Indices, generator: np.random.Generator, *, alpha: float
) -> list[Indices]:
    """Devices of the given sizes whose label mixes are drawn from Dirichlet(α) over the labels that are left.

    A device whose label runs out draws the rest from what remains, so every size is met and no example serves twice.
    """
    pools = [list(order[labels == label]) for label in range(int(labels.max()) + 1)]
    parts = []
    for size in sizes:
        mix = generator.dirichlet(np.full(len(pools), alpha))
        part: list[int] = []
        while len(part) < size:
            left = np.array([len(pool) for pool in pools])
            weights = np.where(left > 0, mix, 0.0)
            if weights.sum() <= 0:  # the drawn mix is spent: whatever is left is as good
                weights = left.astype(float)
            counts = generator.multinomial(size - len(part), weights / weights.sum())
            for pool, count in zip(pools, np.minimum(counts, left), strict=True):
                part += pool[len(pool) - count :]
                del pool[len(pool) - count :]
        parts.append(np.array(part, dtype=np.int64))
    return parts


def _by_writer(
    writers: NDArray[np.generic] | None, generator: np.random.Generator, *, devices: int, at_least: int
) -> list[Indices]:
    if writers is None:
        raise InputError('data.partition = "writer": the data name no writers; use iid or dirichlet')
    names, owner, counts = np.unique(writers, return_inverse=True, return_counts=True)
    eligible = np.flatnonzero(counts >= at_least)
    if len(eligible) < devices:
        raise InputError(
            f"data.devices = {devices}: only {len(eligible)} of {len(names)} writers have {at_least} examples or more"
        )
    chosen = np.sort(generator.choice(eligible, size=devices, replace=False))
    by_owner = np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
    return [by_owner[i] for i in chosen]
