"""A node's own examples, read from a local file that no other machine has."""

from collections.abc import Sequence
from logging import WARNING
from pathlib import Path

import numpy as np
from flwr.supercore import log
from numpy.typing import NDArray

from pfels.config.tree import Config
from pfels.data import datasets, features
from pfels.data.formats import npz
from pfels.data.partition import ArrayFederation
from pfels.errors import InputError
from pfels.experiment import link
from pfels.flower.messages import NodeShare


def local_federation(path: str, config: Config, share: NodeShare) -> ArrayFederation:
    """The examples in a node's own file, on the devices that the node carries.

    There is one device per writer in the file, in their order; a file without writers is for a node with one device.
    Devices of other nodes are empty here. Nothing is refused for a label, since the server, which may choose the number
    of classes, would learn of it: examples with a label beyond them are left out, with a line in the node's own log.
    """
    where = f"local-data = {path!r}"
    arrays = npz.read(Path(path).expanduser(), where=where)
    classes = _classes(where, npz.stated_classes(arrays), config)
    fits = arrays["y_train"] < classes
    labels = {name: np.where(arrays[name] < classes, arrays[name], 0) for name in ("y_train", "y_test")}
    stored = datasets.of_arrays({**arrays, **labels}, classes=classes)
    if config.data.name != "file" and stored.shape != (wanted := link.stored_example(config).shape):
        raise InputError(f"{where}: examples of shape {stored.shape}; must be {wanted}, as in {config.data.name}")
    data = features.extract(stored, config.data.features)
    mine, parts = share.of(np.arange(config.data.devices)), _by_writer(data.writers, examples=len(data.train))
    if len(parts) != len(mine):
        raise InputError(f"{where}: holds the examples of {len(parts)} devices; this node carries {len(mine)}")
    if not fits.all():
        log(WARNING, "%s: %d examples have a label of %d or more; left out", where, (~fits).sum(), classes)
    held = {device: part[fits[part]] for device, part in zip(mine.tolist(), parts, strict=True)}
    nothing, test = np.empty(0, np.int64), data.train if data.test is None else data.test
    return ArrayFederation(data, tuple(held.get(device, nothing) for device in range(config.data.devices)), test)


def _classes(where: str, stated: int | None, config: Config) -> int:
    """The number of classes of the run. It is never inferred from the labels, which are private."""
    if config.data.name != "file":
        return link.stored_example(config).classes
    given = config.data.classes
    classes = stated if given is None else given
    if classes is None:
        raise InputError(f"{where}: how many classes? Set data.classes in the run config, or {npz.CLASSES} in the file")
    if stated not in (None, classes):
        raise InputError(f"{where}: says {npz.CLASSES} = {stated}, but the run has data.classes = {classes}")
    return classes


def _by_writer(writers: NDArray[np.generic] | None, *, examples: int) -> Sequence[NDArray[np.int64]]:
    if writers is None:
        return [np.arange(examples)]
    return [np.flatnonzero(writers == writer) for writer in np.unique(writers)]
