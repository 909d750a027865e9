"""A node's own examples, read from a local file that no other machine has."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pfels.config.tree import Config
from pfels.data import datasets, features
from pfels.data.examples import Dataset
from pfels.data.partition import ArrayFederation
from pfels.errors import InputError
from pfels.experiment import link
from pfels.flower.messages import NodeShare


def local_federation(path: str, config: Config, share: NodeShare) -> ArrayFederation:
    """The examples in a node's own file, on the devices that the node carries.

    There is one device per writer in the file, in their order; a file without writers is for a node with one device.
    Devices of other nodes are empty here.
    """
    data = features.extract(_checked(datasets.load("file", path), path, config), config.data.features)
    mine, parts = share.of(np.arange(config.data.devices)), _by_writer(data)
    if len(parts) != len(mine):
        raise InputError(
            f"local-data = {path!r}: holds the examples of {len(parts)} devices; this node carries {len(mine)}"
        )
    held = dict(zip(mine.tolist(), parts, strict=True))
    nothing = np.empty(0, np.int64)
    test = data.train if data.test is None else data.test
    return ArrayFederation(data, tuple(held.get(device, nothing) for device in range(config.data.devices)), test)


def _checked(data: Dataset, path: str, config: Config) -> Dataset:
    """The data, if their shape and classes are those of the run."""
    if config.data.name == "file":  # then the run's own file sets both
        return data
    wanted = link.stored_example(config)
    if data.shape != wanted.shape or data.classes > wanted.classes:
        raise InputError(
            f"local-data = {path!r}: examples of shape {data.shape} in {data.classes} classes; must be {wanted.shape} "
            f"in at most {wanted.classes}, as in {config.data.name}"
        )
    return replace(data, classes=wanted.classes)


def _by_writer(data: Dataset) -> list[NDArray[np.int64]]:
    if data.writers is None:
        return [np.arange(len(data.train))]
    return [np.flatnonzero(data.writers == writer) for writer in np.unique(data.writers)]
