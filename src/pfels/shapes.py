"""What one example of a data set looks like, and so how large the model is: known before any data are at hand."""

from typing import NamedTuple

from pfels import datasets, models
from pfels.config import Config


class Example(NamedTuple):
    """The shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int


KNOWN = {
    "digits": Example((1, 8, 8), 10),
    "fashion": Example((1, 28, 28), 10),
    "mnist-writers": Example((1, 28, 28), 10),
    "cifar10": Example((3, 32, 32), 10),
    "femnist": Example((1, 28, 28), 62),
}


def example(config: Config) -> Example:
    """What an example of this config's data looks like; a user's own data are read to find out."""
    if config.data.name in KNOWN:
        return KNOWN[config.data.name]
    dataset = datasets.load(config.data.name, config.data.path)
    return Example(dataset.shape, dataset.classes)


def dimension(config: Config) -> int:
    """The number d of parameters of this config's network."""
    shape, classes = example(config)
    return models.build(config.model.name, shape=shape, classes=classes, hidden=config.model.hidden).dimension
