"""What a data file may ask of the machine. Sizes are checked before anything of that size is read."""

import math
from collections.abc import Sequence
from pathlib import Path

from pfels.errors import InputError

# CIFAR-10 has 0.2 GB, and all of FEMNIST 0.6 GB. With the copies that reading makes, this much needs less than 2 GB.
MAXIMUM_BYTES = 2**30
# A large archive may unpack to more, by as much as real data compress: MNIST by 5. A bomb unpacks by up to 1,000.
MAXIMUM_RATIO = 20
MAXIMUM_AXES = 4  # images, rows, columns, colours
MAXIMUM_HEADER = 10_000  # bytes, as NumPy has it: a header is a line of text


def require_file(path: Path, where: str, *, wanted: str = "") -> None:
    """An InputError unless this is a file: a directory cannot be read, and a pipe would never end."""
    try:
        found, folder = path.is_file(), path.is_dir()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise InputError(f"{where}: {error}") from None
    if not found:
        fault = "is a directory" if folder else "no such file"
        raise InputError(f"{where}: {fault}{'; ' * bool(wanted)}{wanted}")


def require_size(needed: int, where: str, *, stored: int = 0) -> None:
    """An InputError if reading would take more than the limit; `stored` is the size of the archive it comes from."""
    limit = max(MAXIMUM_BYTES, MAXIMUM_RATIO * stored)
    if needed > limit:
        least = min(needed, 10**18)  # a header may state more than a float holds
        raise InputError(f"{where}: unpacked it would take {least / 1e9:.1f} GB; must be at most {limit / 1e9:.1f} GB")


def require_shape(shape: Sequence[int], where: str) -> int:
    """How many elements an array of this shape has; an InputError unless it is the shape of images or of labels."""
    if not 1 <= len(shape) <= MAXIMUM_AXES:
        raise InputError(f"{where}: {len(shape)} axes; must be 1 to {MAXIMUM_AXES}")
    return math.prod(shape)
