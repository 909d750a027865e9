"""Fixed features of images, in place of their pixels (`data.features`).

A feature is a public function of one image, the same on every device. Its constants come from no data, and no image
changes the features of another, so features cost no privacy: a device computes them before it trains.
"""

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from pfels.errors import InputError

if TYPE_CHECKING:
    from pfels.data.examples import Dataset, Examples

CELL = 4  # pixels per side of a cell: features are on a grid of a quarter of the image's sides
CHANNELS = {"hog": (8, 1), "scattering": (0, 81)}  # features per cell: of the image, and of each of its colours


def shape_of(kind: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an example's features, from the shape of the example; "none" changes nothing.

    >>> shape_of("hog", (1, 28, 28))
    (441,)
    """
    if kind == "none":
        return shape
    if len(shape) != 3:
        raise InputError(f'data.features = "{kind}": needs images, but an example has shape {shape}; use none')
    colours, height, width = shape
    if colours not in (1, 3) or any(side < 2 * CELL or side % CELL for side in (height, width)):
        raise InputError(
            f'data.features = "{kind}": needs images of 1 or 3 colours with sides of 8, 12, 16, … pixels, '
            f"but they are {colours}×{height}×{width}; use none"
        )
    once, each = CHANNELS[kind]
    return ((once + each * colours) * (height // CELL) * (width // CELL),)


def extract(dataset: "Dataset", kind: str) -> "Dataset":
    """The data set with the features of every example in place of its pixels, computed once and then cached."""
    if kind == "none":
        return dataset
    shape_of(kind, dataset.shape)  # refuses data without suitable images
    test = None if dataset.test is None else _extracted(dataset.test, kind)
    return replace(dataset, train=_extracted(dataset.train, kind), test=test)


def _extracted(examples: "Examples", kind: str) -> "Examples":
    from pfels.data import feature_cache
    from pfels.data.examples import Examples

    definition = import_module(f"pfels.data.{kind}")
    (width,) = shape_of(kind, examples.shape)
    table = feature_cache.table(examples, definition.features, f"{kind}-{definition.VERSION}", width=width)
    return Examples(table, examples.y)
