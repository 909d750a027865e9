"""Partition of examples over devices: IID, Dirichlet label skew, or by writer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.data.examples import Dataset, Examples
from pfels.errors import InputError

Indices = NDArray[np.int64]
HELD_OUT = 10  # one example in 10 is held out for the test if the data have no test set


@dataclass(frozen=True)
class DeviceBatch:
    """The examples of some devices, padded to the maximum count: x (r, n, …), y (r, n), and the true counts (r,)."""

    x: Tensor
    y: Tensor
    counts: NDArray[np.int64]


class Federation(Protocol):
    """Devices with their own training examples, and a common test set."""

    @property
    def devices(self) -> int:
        """The number of devices."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""

    @property
    def classes(self) -> int:
        """The number of classes."""

    @property
    def test(self) -> Examples:
        """Examples that no device trains on."""

    def examples(self, devices: Sequence[int]) -> DeviceBatch:
        """The examples of these devices; padding repeats the device's own examples, with weight zero."""


@dataclass(frozen=True)
class ArrayFederation:
    """Training examples partitioned over devices. Examples are copied only when a device is requested."""

    dataset: Dataset
    parts: tuple[Indices, ...]
    test: Examples

    @property
    def devices(self) -> int:
        """The number of devices."""
        return len(self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.dataset.shape

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.dataset.classes

    def examples(self, devices: Sequence[int]) -> DeviceBatch:
        """The examples of these devices; padding repeats the device's own examples, or another's where a device has
        none, with weight zero."""
        rows, starts, sizes = self._listed
        counts = sizes[devices]
        places = starts[devices][:, None] + np.arange(max(counts.max(), 1)) % np.maximum(counts, 1)[:, None]
        return DeviceBatch(*self.dataset.train.take(torch.from_numpy(rows[places])), counts)

    @cached_property
    def _listed(self) -> tuple[Indices, Indices, Indices]:
        """The parts one after the other, where each begins, and its size."""
        sizes = np.array([len(part) for part in self.parts], dtype=np.int64)
        padding = np.zeros(1, np.int64)  # where a last device would begin that has no examples
        return np.concatenate([*self.parts, padding]), np.cumsum(sizes) - sizes, sizes


def split(
    dataset: Dataset, generator: np.random.Generator, *, kind: str, devices: int, per_device: int | None, alpha: float
) -> ArrayFederation:
    """A federation by kind of partition. `per_device`: examples per device; by writer, the minimum a writer must have.

    If the data have no test set, a random tenth of each device's examples forms a common one.
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
    """The training examples of each device, and the tenth of all devices' examples held out for the test."""
    shuffled = [generator.permutation(part) for part in parts]
    held = [len(part) // HELD_OUT for part in parts]
    if not any(held):
        raise InputError(f"data.per_device: no device has {HELD_OUT} examples, of which one is held out for the test")
    train = [np.sort(part[n:]) for part, n in zip(shuffled, held, strict=True)]
    return train, np.concatenate([part[:n] for part, n in zip(shuffled, held, strict=True)])


def _sizes(examples: int, devices: int, per_device: int | None) -> Indices:
    """The number of examples per device: `per_device`, or all examples divided evenly."""
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
    """Devices of the given sizes whose label distributions are drawn from Dirichlet(α) over the remaining labels.

    If a label runs out, a device draws from the remaining ones, so every size is met and no example is used twice.
    """
    pools = [list(order[labels == label]) for label in range(int(labels.max()) + 1)]
    parts = []
    for size in sizes:
        mix = generator.dirichlet(np.full(len(pools), alpha))
        part: list[int] = []
        while len(part) < size:
            left = np.array([len(pool) for pool in pools])
            weights = np.where(left > 0, mix, 0.0)
            if weights.sum() <= 0:  # none of the drawn labels is left: use any other
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
        raise InputError('data.partition = "writer": the data have no writers; use iid or dirichlet')
    names, owner, counts = np.unique(writers, return_inverse=True, return_counts=True)
    eligible = np.flatnonzero(counts >= at_least)
    if len(eligible) < devices:
        raise InputError(
            f"data.devices = {devices}: only {len(eligible)} of {len(names)} writers have {at_least} examples or more"
        )
    chosen = np.sort(generator.choice(eligible, size=devices, replace=False))
    by_owner = np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
    return [by_owner[i] for i in chosen]
