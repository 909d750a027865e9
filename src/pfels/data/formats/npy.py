"""An .npy array out of an archive: the header is checked before anything of the size that it states is read."""

import ast
import re
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfels.data.formats.limits import MAXIMUM_HEADER, require_shape, require_size
from pfels.errors import InputError, shown

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # of the header's length, by version of the format
PLAIN = re.compile(r"[<>|=]?[biufSU]\d{1,6}")  # numbers and text: nothing that holds Python objects
BLOCK = 2**20
Array = NDArray[Any]


class Header(NamedTuple):
    """What an .npy file states of itself."""

    dtype: "np.dtype[Any]"
    fortran: bool
    shape: tuple[int, ...]
    length: int  # of the header, with all before the data


def read(file: IO[bytes], size: int, where: str, *, stored: int, cure: str = "") -> Array:
    """The array in a stream of `size` bytes, which come from an archive of `stored` bytes. `cure` is what to do about
    one of Python objects; a single number has no axes."""
    header = _header(file, where, cure)
    elements = require_shape(header.shape, where) if header.shape else 1
    needed = elements * header.dtype.itemsize
    require_size(needed, where, stored=stored)
    if size != header.length + needed:
        raise InputError(f"{where}: {size - header.length} bytes of data; its shape {header.shape} needs {needed}")
    content = bytearray(needed)
    view, at = memoryview(content), 0
    while at < needed and (count := file.readinto(view[at : at + BLOCK])):  # type: ignore[attr-defined]
        at += count
    if at < needed or file.read(1):  # reading to the end also checks the archive's checksum
        raise InputError(f"{where}: truncated")
    if elements == 0:
        return np.empty(header.shape, header.dtype)
    array = np.frombuffer(content, header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def _header(file: IO[bytes], where: str, cure: str) -> Header:
    start = file.read(len(MAGIC) + 2)
    width = LENGTH_BYTES.get(start[len(MAGIC)], 0) if len(start) == len(MAGIC) + 2 and start.startswith(MAGIC) else 0
    length = int.from_bytes(file.read(width), "little")
    if not width or length > MAXIMUM_HEADER:
        raise InputError(f"{where}: not a plain array")
    text = file.read(length)
    try:
        found = ast.literal_eval(text.decode("latin1").strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # all that it is documented to raise
        found = None
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        raise InputError(f"{where}: not a plain array")
    descr, fortran, shape = found["descr"], found["fortran_order"], found["shape"]
    if not isinstance(descr, str) or not PLAIN.fullmatch(descr):
        kind = "Python objects, as pandas keeps text and mixed columns" if descr == "|O" else shown(descr)
        raise InputError(f"{where}: an array of {kind}; {cure or 'must be plain numbers, or text for writers'}")
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError):
        raise InputError(f"{where}: an array of {shown(descr)}; NumPy has no such type") from None
    if type(fortran) is not bool or type(shape) is not tuple or any(type(n) is not int or n < 0 for n in shape):
        raise InputError(f"{where}: has the shape {shown(shape)}; must be whole numbers from 0")
    return Header(dtype, fortran, shape, len(start) + width + length)
