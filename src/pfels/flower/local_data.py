"""A node with data of its own: examples that no other machine has ever seen."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.config.tree import Config
from pfels.data import datasets
from pfels.data.examples import Dataset
from pfels.data.partition import ArrayFederation
from pfels.errors import InputError
from pfels.experiment import link
from pfels.flower.messages import Place


def own_federation(path: str, config: Config, place: Place) -> ArrayFederation:
    """A node's own examples on the devices it carries: one device for each writer in the file, in their order, or all
    examples on its only device where the file names no writers. Devices that live elsewhere have nothing here."""
    data = _fitting(datasets.load("file", path), path, config)
    mine, parts = place.carries(np.arange(config.data.devices)), _by_writer(data)
    if len(parts) != len(mine):
        raise InputError(
            f"local-data = {path!r}: holds the examples of {len(parts)} devices; this node carries {len(mine)}"
        )
    held = dict(zip(mine.tolist(), parts, strict=True))
    nothing = np.empty(0, np.int64)
    test = data.train if data.test is None else data.test
    return ArrayFederation(data, tuple(held.get(device, nothing) for device in range(config.data.devices)), test)


def _fitting(data: Dataset, path: str, config: Config) -> Dataset:
    if config.data.name == "file":  # what the examples of this run look like is then up to the files
        return data
    wanted = link.example(config)
    if data.shape != wanted.shape or data.classes > wanted.classes:
        raise InputError(
            f"local-data = {path!r}: examples of shape {data.shape} in {data.classes} classes; must be {wanted.shape} "
            f"in at most {wanted.classes}, as {config.data.name} has"
        )
    return replace(data, classes=wanted.classes)


def _by_writer(data: Dataset) -> list[NDArray[Any]]:
    if data.writers is None:
        return [np.arange(len(data.train))]
    return [np.flatnonzero(data.writers == writer) for writer in np.unique(data.writers)]
