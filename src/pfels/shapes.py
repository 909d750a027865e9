"""What one example of a data set looks like, and so how large the model is: known before any data are at hand."""

from typing import NamedTuple

from pfels import architectures
from pfels.config import Config
from pfels.data.catalog import find


class Example(NamedTuple):
    """The shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int


def example(config: Config) -> Example:
    """What an example of this config's data looks like; a user's own data are read to find out."""
    if config.data.name == "file":
        from pfels import datasets

        own = datasets.load(config.data.name, config.data.path)
        return Example(own.shape, own.classes)
    entry = find(config.data.name)
    return Example(entry.shape, entry.classes)


def dimension(config: Config) -> int:
    """The number d of parameters of this config's network."""
    shape, classes = example(config)
    network = architectures.layers(config.model.name, shape=shape, classes=classes, hidden=config.model.hidden)
    return architectures.dimension(network)
