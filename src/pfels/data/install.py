"""Getting a data set into the cache, and checking what is there."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pfels.data.cache import Progress, Say, Workspace, digest, home, workspace
from pfels.data.catalog import Entry, find
from pfels.data.formats import leaf, packed
from pfels.data.packages import SourceError
from pfels.data.sources import SOURCES, gather_idx
from pfels.errors import InputError, RunError


@dataclass(frozen=True)
class Verdict:
    """How a data set in the cache stands: `there` at all, and what is wrong with which of its files."""

    there: bool
    faults: Mapping[str, str]

    @property
    def good(self) -> bool:
        """Whether it can be used."""
        return self.there and not self.faults


@dataclass(frozen=True)
class Installed:
    """Where a data set is, and whence it came: the name of a source, `cache`, or none for what is never stored."""

    path: Path | None
    source: str | None


def _quiet(what: str, done: int, total: int) -> None:
    """Report nothing."""


def place(entry: Entry) -> Path | None:
    """Where a data set lives in the cache, if it is of the kind that does."""
    return None if entry.place is None else home() / entry.place


def check(name: str, progress: Progress = _quiet) -> Verdict:
    """Compare every byte of a data set in the cache with its checksums."""
    entry = find(name)
    target = place(entry)
    if target is None:
        return Verdict(True, {})
    if not target.exists():
        return Verdict(False, {})
    return Verdict(True, _faults(entry, target, progress))


def get(name: str, *, given: Path | None = None, say: Say, progress: Progress = _quiet) -> Installed:
    """Put a data set into the cache, from its sources in order or from what the user gives, whole or not at all."""
    entry = find(name)
    target = place(entry)
    if target is None:
        return Installed(None, None)
    if given is None and not SOURCES[name] and not check(name).good:
        raise InputError(f"{name}: nothing to download it from; run: pfels data get {name} --from FILE")
    if given is not None and not given.exists():
        raise InputError(f"--from {given}: no such file or directory")
    with workspace(name, say) as work:
        verdict = check(name, progress)
        if verdict.good and given is None:
            return Installed(target, "cache")
        if verdict.faults:
            say(f"{name}: {listed(verdict.faults)}; getting it again")
        if given is None:
            source, made = _from_sources(entry, work, say, progress)
        else:
            source, made = str(given), _from_user(entry, given, work, progress)
        work.install(made, target)
    return Installed(target, source)


def _from_sources(entry: Entry, work: Workspace, say: Say, progress: Progress) -> tuple[str, Path]:
    reasons: list[str] = []
    for source, fetch in SOURCES[entry.name].items():
        if reasons:
            say(f"{entry.name}: not from {reasons[-1]}; trying {source}")
        try:
            made = fetch(work, progress)
            faults = _faults(entry, made, progress)
            if faults:
                raise SourceError(f"what it gave is not the original: {listed(faults)}")
            return source, made
        except SourceError as error:
            reasons.append(f"{source}: {error}")
            shutil.rmtree(work.build)  # whatever it made so far
            work.build.mkdir()
    cure = f"if you have it: pfels data get {entry.name} --from PATH"
    raise RunError(f"{entry.name}: no source could give it ({'; '.join(reasons)}); {cure}")


def _from_user(entry: Entry, given: Path, work: Workspace, progress: Progress) -> Path:
    """The user's copy, taken over only if it is the real thing."""
    made = work.build / "given"
    try:
        if entry.name == "femnist":
            return leaf.pack(leaf.sources(given), work, progress)
        if entry.name == "fashion" and given.is_dir():
            gather_idx(given.iterdir(), made)
        elif entry.name == "mnist-writers" and given.is_file():
            shutil.copyfile(given, made)
        elif entry.name == "cifar10" and given.is_dir():
            inner = given / str(entry.place)
            made.mkdir()
            for file in entry.files:
                path = (inner if inner.is_dir() else given) / file
                if path.is_file():
                    shutil.copyfile(path, made / file)
        else:
            kind = "a file" if given.is_dir() else "a directory"
            raise InputError(f"--from {given}: must be {kind}; pfels data list says what {entry.name} is made from")
        faults = _faults(entry, made, progress)
    except SourceError as error:
        raise InputError(f"--from {given}: {error}") from None
    if faults:
        raise InputError(f"--from {given}: not the original {entry.name}: {listed(faults)}")
    return made


def _faults(entry: Entry, target: Path, progress: Progress) -> dict[str, str]:
    """What is wrong with which file of a data set at `target`."""
    files = entry.files
    if not files:
        try:
            files = packed.index(target)["files"]
        except InputError:
            return {packed.INDEX: "missing or altered"}
    faults = {}
    for name, expected in files.items():
        path = target if target.is_file() else target / name
        if not path.is_file():
            faults[name] = "missing"
        elif digest(path, expected.partition(":")[0], progress) != expected:
            faults[name] = f"checksum is not {expected}"
    return faults


def listed(faults: Mapping[str, str]) -> str:
    """Faults in one line that stays short."""
    first = [f"{name} {fault}" for name, fault in faults.items()][:2]
    return ", ".join(first) + (f" and {len(faults) - 2} more" if len(faults) > 2 else "")
