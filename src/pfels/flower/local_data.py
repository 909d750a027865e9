"""The examples of a node's devices, read once they have been charged: nothing that a node answers before depends on
them.

What can be wrong with a single example, its label or a number in it, is no reason to refuse, since the server would
learn of it: that example is left out, with a line in the node's log. A device without any trains on a stand-in, and
sends what a device sends that has learned nothing.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfels.config.tree import Config
from pfels.data import features
from pfels.data.examples import Dataset, Examples
from pfels.data.formats import npz
from pfels.data.partition import ArrayFederation, DeviceBatch, Federation
from pfels.errors import InputError
from pfels.experiment import link
from pfels.experiment.setup import federate
from pfels.flower.messages import NodeShare
from pfels.seeding import Seed

LOG = logging.getLogger("pfels.node")
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class NodeData:
    """A federation whose examples are read when the first are asked for. `path` is the node's own file, if it has one;
    `shape` and `classes` are public: the run's, or what the file states."""

    config: Config
    seed: Seed
    share: NodeShare
    path: str | None
    shape: tuple[int, ...]
    classes: int
    empty: set[int] = field(default_factory=set, compare=False)  # devices without an example, once read

    @classmethod
    def of(cls, config: Config, share: NodeShare, path: str | None, seed: Seed) -> "NodeData":
        """The data of a node. Of its own file, at most names, types and shapes of arrays count here."""
        if path is None or config.data.name != "file":
            return cls(config, seed, share, path, *link.example(config))
        arrays = npz.read_of_node(Path(path).expanduser(), where=_where(path))
        given, stated = config.data.classes, npz.stated_classes(arrays)
        if given is None and stated is None:
            raise InputError(f"{_where(path)}: how many classes? Set data.classes, or {npz.CLASSES} in the file")
        if None not in (given, stated) and given != stated:
            raise InputError(f"{_where(path)}: says {npz.CLASSES} = {stated}, but the run has data.classes = {given}")
        shape = features.shape_of(config.data.features, arrays["x_train"].shape[1:])
        return cls(config, seed, share, path, shape, given or stated or 0)

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.config.data.devices

    @property
    def test(self) -> Examples:
        """Examples that no device trains on; nodes do not test."""
        return self._read.test

    def examples(self, devices: Sequence[int]) -> DeviceBatch:
        """The examples of these devices; a stand-in for one without any."""
        return self._read.examples(devices)

    def require_readable(self) -> None:
        """An InputError if the examples cannot be read, for the node's owner."""
        self._read.devices  # noqa: B018

    @cached_property
    def _read(self) -> Federation:
        """All examples; an InputError if they cannot be read."""
        if self.path is None:
            return federate(self.config, self.seed)
        federation, empty = local_federation(self.path, self.config, self.share, classes=self.classes)
        self.empty.update(empty)
        return federation


def local_federation(path: str, config: Config, share: NodeShare, *, classes: int) -> tuple[ArrayFederation, set[int]]:
    """The examples in a node's own file on the devices that the node carries, and those devices that have none.

    There is one device per writer, in the order of `writer_names`, or else of the names of those who have examples; a
    file without writers is for a node with one device. Devices of other nodes are empty here.
    """
    arrays = npz.read_of_node(Path(path).expanduser(), where=_where(path))
    x, y = arrays["x_train"], arrays["y_train"]
    if config.data.name != "file" and x.shape[1:] != (wanted := link.stored_example(config).shape):
        raise InputError(f"{_where(path)}: examples of shape {x.shape[1:]}; must be {wanted}, as in {config.data.name}")
    mine, parts = share.of(np.arange(config.data.devices)).tolist(), _by_writer(arrays)
    if len(parts) > len(mine):
        raise InputError(f"{_where(path)}: holds the examples of {len(parts)} devices; this node carries {len(mine)}")
    usable = (y >= 0) & (y < classes) & np.isfinite(x).all(tuple(range(1, x.ndim)))
    held = {device: part[usable[part]] for device, part in zip(mine, parts, strict=False)}
    empty = {device for device in mine if not len(held.get(device, ()))}
    if unusable := len(y) - int(usable.sum()):
        LOG.warning("%s: %d examples left out: NaN, infinity, or a label not below %d", _where(path), unusable, classes)
    if empty:
        LOG.warning("%s: %d devices have no examples: %s", _where(path), len(empty), sorted(empty)[:9])
    if len(parts) < len(mine):
        LOG.warning(
            "%s: %d writers on %d devices; list all in %s, so that each keeps its device and what that has spent",
            _where(path), len(parts), len(mine), npz.WRITER_NAMES,
        )  # fmt: skip
    stand_in, nothing = np.array([len(y)]), np.empty(0, np.int64)
    dealt = (stand_in if device in empty else held.get(device, nothing) for device in range(config.data.devices))
    x[~usable], y[~usable] = 0, 0
    blank = np.zeros((1, *x.shape[1:]), x.dtype)
    train = Examples(torch.from_numpy(np.concatenate([x, blank])), torch.from_numpy(np.append(y, 0)))
    data = features.extract(Dataset(train, None, classes), config.data.features)
    return ArrayFederation(data, tuple(dealt), data.train), empty


def _where(path: str) -> str:
    return f"local-data = {path!r}"


def _by_writer(arrays: Mapping[str, NDArray[Any]]) -> list[Indices]:
    if npz.WRITERS not in arrays:
        return [np.arange(len(arrays["y_train"]))]
    writers = arrays[npz.WRITERS]
    if npz.WRITER_NAMES not in arrays:
        return [np.flatnonzero(writers == writer) for writer in np.unique(writers)]
    texts = writers.astype(str)
    return [np.flatnonzero(texts == name) for name in arrays[npz.WRITER_NAMES].reshape(-1).astype(str)]
