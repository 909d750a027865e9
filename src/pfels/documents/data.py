"""Data sets: `pfels data list`, `get` and `check`."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.validate import Count, document


@document
class HomeMade(TypedDict):
    """`mnist_by_writer.json` in the cache, beside a file that was built or given."""

    sha256: str  # checksum of the file, when it was installed
    source: str  # where it came from
    original: bool  # whether its arrays are MNIST's and QMNIST's, by their known checksums


@document
class DataNote(TypedDict):
    """What a reader of a run's privacy figures must know about its data."""

    name: str  # a device is not a user, classes inferred, or writers left out
    sentence: str  # what it means here
    devices_per_user: NotRequired[Count]  # the maximum number of devices that hold examples of one user, if known


class DataSet(TypedDict):
    """One data set; `source` is only in `data get`, `good` and `faults` only in `data check`."""

    name: str  # its name in `data.name`
    title: str  # what it is
    examples: str  # how many examples, training + test
    shape: list[int]  # shape of one example
    classes: int  # number of classes
    bytes: int  # size in the cache; 0: never stored
    download_bytes: int  # size of the download; 0: unknown or none
    licence: str  # licence
    sources: list[str]  # where it can be had, in the order tried
    files: dict[str, str]  # checksum of each file, as known beforehand
    path: str | None  # where it is in the cache; null: never stored
    here: bool  # whether it can be used without a download
    installed: NotRequired[HomeMade]  # what is in the cache, if it was built or given: only of mnist-writers
    source: NotRequired[str | None]  # where it came from; `cache`: it was there; null: never stored
    verified: NotRequired[str]  # what is known of it where every byte is right, as `data get` and `data check` say it
    good: NotRequired[bool]  # whether every byte is right
    faults: NotRequired[dict[str, str]]  # what is wrong, by file


class DataSets(TypedDict):
    """`pfels data list --json`."""

    cache: str  # the cache directory
    sets: dict[str, DataSet]  # by name
