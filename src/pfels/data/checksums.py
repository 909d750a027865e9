"""Checksums of the data files that a run reads, where the catalog does not know them beforehand."""

from collections.abc import Mapping
from pathlib import Path

from pfels.data.cache import digest
from pfels.data.catalog import find
from pfels.data.formats import cifar10, idx, leaf
from pfels.data.install import place


def checksums(name: str, path: str | None) -> dict[str, str]:
    """The SHA-256 of each file of the user's own data, by its name; nothing for data that are as the catalog says."""
    if path is not None:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        return {str(each.relative_to(folder)): digest(each, "sha256") for each in _files(name, Path(path))}
    if name == "mnist-writers" and (made := place(find(name))) is not None and made.is_file():
        return {made.name: digest(made, "sha256")}  # which may be home-made
    return {}


def same(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    """Whether two such records are of the same content, whatever its files are called."""
    return sorted(a.values()) == sorted(b.values())


def _files(name: str, path: Path) -> list[Path]:
    """The files that a data set is read from."""
    if name == "femnist":
        return leaf.sources(path)
    if name == "fashion":
        places = [path / f"{each}{end}" for each in (*idx.TRAIN, *idx.TEST) for end in ("", ".gz")]
    elif name == "cifar10":
        inner = path / str(find(name).place)
        places = [folder / each for folder in (path, inner) for each in (*cifar10.TRAIN, *cifar10.TEST)]
    else:
        return [path]
    return [each for each in places if each.is_file()]
