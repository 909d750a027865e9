"""Inputs out of valid ones: bytes flipped, cut, repeated and spliced, and what parsers are known to trip over."""

import json
import random
import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

NUMBERS = (
    b"0", b"-1", b"1", b"2", b"255", b"65536", b"-2147483649", b"4294967296", b"9223372036854775807",
    b"9223372036854775808", b"1e308", b"1e309", b"-1e309", b"NaN", b"Infinity", b"inf", b"nan",
    b"1e-320", b"0.5", b"7.5",
    b"1" + b"0" * 400, b"9" * 5000, b"0x" + b"f" * 5000, b"true", b"null", b'""', b'"x"', b"[]", b"{}",
)  # fmt: skip
TOKENS = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\n", b"\r\n", b"\x1b[31m", b'"', b"'", b"\\",
    b"[" * 2000, b"{" * 500,
    b"(" * 500, b"]", b"}", b",", b":", b"=", b".", b"..", b"/", b"--", b"-s", b"k" * 5000,
    b"<script>", b"%s", b"\xe2\x80\xae",
    b"True", b"None", b"'shape': (True, 4)", b"'descr': '|O'", b"PK\x01\x02", b"PK\x03\x04", b"\x93NUMPY", b"\x1f\x8b",
    b'"dtype":"I32"', b'"dtype":"BF16"', b'"dtype":"F64"', b"data_offsets", b"__metadata__",
)  # fmt: skip
FIELDS = (b"\0", b"\1", b"\x7f", b"\x80", b"\xff")
LEAVES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.5, 7.5, 1e308, float("inf"), float("nan"),
    "", "x", "\ud800", "a\nb\x1b[31m", "<script>", "k" * 5000, [], [[]], [1, "x"], {}, {"a": 1}, "float64", "1",
    "01", "-1",
)  # fmt: skip


def mutated(data: bytes, corpus: Sequence[bytes], draw: random.Random) -> bytes:
    """The data after one to six changes; of a JSON text, often changes of values that leave it one."""
    if data[:1] == b"{" and draw.random() < 0.7:
        try:
            tree = json.loads(data)
        except ValueError:  # lines of JSON
            tree = None
        if tree is not None:
            for _ in range(draw.choice((1, 1, 2, 3))):
                _change_tree(tree, draw)
            return json.dumps(tree).encode()
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 6))):
        _change(changed, corpus, draw)
    return bytes(changed[: 2**20])


def _change_tree(tree: Any, draw: random.Random) -> None:
    """Replace, delete or rename one value somewhere in a tree."""
    while isinstance(tree, dict | list) and tree:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = draw.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.8:
            tree = tree[key]
            continue
        match draw.randrange(5):
            case 0:
                del tree[key]
            case 1 if isinstance(tree, dict):
                tree[draw.choice(("", "x", "\ud800", "0", "k" * 5000, str(key) + " "))] = tree.pop(key)
            case _:
                tree[key] = deepcopy(draw.choice(LEAVES))
        return


def _change(data: bytearray, corpus: Sequence[bytes], draw: random.Random) -> None:
    at = draw.randrange(len(data) + 1)
    length = min(draw.choice((1, 2, 4, 8, 32, 256, 4096)), len(data) - at)
    match draw.randrange(10):
        case 0 if at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        case 1 if at < len(data):
            data[at] = draw.randrange(256)
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = data[at : at + length] * draw.choice((1, 1, 2, 50))
        case 4:
            del data[at:]
        case 5:
            data[at:at] = draw.choice(TOKENS)
        case 6:  # a field of a binary header
            data[at : at + length] = draw.choice(FIELDS) * length
        case 7:
            other = draw.choice(corpus)
            start = draw.randrange(len(other) + 1)
            data[at : at + length] = other[start : start + draw.choice((1, 8, 64, 1024))]
        case _:  # a number in a text
            found = list(re.finditer(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?", data[:200_000]))
            if found:
                where = draw.choice(found)
                data[where.start() : where.end()] = draw.choice(NUMBERS)
