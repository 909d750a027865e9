"""Install a data set in the cache, and verify an installed one."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pfels.data import writers
from pfels.data.cache import Progress, Say, Workspace, digest, home, workspace
from pfels.data.catalog import Entry, find
from pfels.data.formats import leaf, packed
from pfels.data.packages import SourceError
from pfels.data.sources import SOURCES, gather_idx
from pfels.errors import InputError, RunError


@dataclass(frozen=True)
class Verdict:
    """The state of a data set in the cache: whether it is `there`, and the fault of each faulty file."""

    there: bool
    faults: Mapping[str, str]

    @property
    def good(self) -> bool:
        """Whether the data set is present and without faults."""
        return self.there and not self.faults


@dataclass(frozen=True)
class Installed:
    """The path of a data set and its source: a name, `cache`, or None for a data set that is never stored."""

    path: Path | None
    source: str | None


def _quiet(what: str, done: int, total: int) -> None:
    """Report nothing."""


def place(entry: Entry) -> Path | None:
    """The path of a data set in the cache; None for one that is never stored."""
    return None if entry.place is None else home() / entry.place


def check(name: str, progress: Progress = _quiet) -> Verdict:
    """Verify the checksums of all files of a data set in the cache."""
    entry = find(name)
    target = place(entry)
    if target is None:
        return Verdict(True, {})
    if not target.exists():
        return Verdict(False, {})
    return Verdict(True, _faults(entry, target, progress))


def get(name: str, *, given: Path | None = None, say: Say, progress: Progress = _quiet) -> Installed:
    """Install a data set in the cache, from its sources in order or from a given path: completely or not at all."""
    entry = find(name)
    target = place(entry)
    if target is None:
        return Installed(None, None)
    if given is not None and not given.exists():
        raise InputError(f"--from {given}: no such file or directory")
    with workspace(name, say) as work:
        verdict = check(name, progress)
        if verdict.good and given is None:
            return Installed(target, "cache")
        if verdict.faults:
            say(f"{name}: {listed(verdict.faults)}; installing it again")
        if given is None:
            source, made = _from_sources(entry, work, say, progress)
        else:
            source, made = str(given), _from_user(entry, given, work, progress)
        if name == writers.NAME:
            writers.record(made, target, source=source)
        work.install(made, target)
    return Installed(target, source)


def _from_sources(entry: Entry, work: Workspace, say: Say, progress: Progress) -> tuple[str, Path]:
    reasons: list[str] = []
    for source, fetch in SOURCES[entry.name].items():
        if reasons:
            say(f"{entry.name}: {reasons[-1]}; trying {source}")
        try:
            made = fetch(work, progress)
            faults = {} if entry.arrays else _faults(entry, made, progress)
            if faults:
                raise SourceError(f"its data differ from the original: {listed(faults)}")
            return source, made
        except SourceError as error:
            reasons.append(f"{source}: {error}")
            shutil.rmtree(work.build)  # its partial result
            work.build.mkdir()
    cure = f"if you have a copy: pfels data get {entry.name} --from PATH"
    raise RunError(f"{entry.name}: no source available ({'; '.join(reasons)}); {cure}")


def _from_user(entry: Entry, given: Path, work: Workspace, progress: Progress) -> Path:
    """The user's copy, accepted only if its checksums are right; of mnist-writers a home-made one as well."""
    made = work.build / "given"
    try:
        if entry.name == "femnist":
            return leaf.pack(leaf.sources(given), work, progress)
        if entry.name == "fashion" and given.is_dir():
            gather_idx(given.iterdir(), made)
        elif entry.name == writers.NAME:
            if given.is_dir():
                return writers.from_folder(given, work)
            writers.own(given)
            shutil.copyfile(given, made)
            return made
        elif entry.name == "cifar10" and given.is_dir():
            inner = given / str(entry.place)
            made.mkdir()
            for file in entry.files:
                path = (inner if inner.is_dir() else given) / file
                if path.is_file():
                    shutil.copyfile(path, made / file)
        else:
            kind = "a file" if given.is_dir() else "a directory"
            raise InputError(f"--from {given}: must be {kind}; see pfels data list for the sources of {entry.name}")
        faults = _faults(entry, made, progress)
    except SourceError as error:
        raise InputError(f"--from {given}: {error}") from None
    if faults:
        raise InputError(f"--from {given}: not the original {entry.name}: {listed(faults)}")
    return made


def _faults(entry: Entry, target: Path, progress: Progress) -> dict[str, str]:
    """The fault of each faulty file of a data set at `target`."""
    files = entry.files
    if entry.name == writers.NAME and (about := writers.recorded(target)) is not None:
        files = {target.name: about["sha256"]}
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
    """The faults in one short line."""
    first = [f"{name} {fault}" for name, fault in faults.items()][:2]
    return ", ".join(first) + (f" and {len(faults) - 2} more" if len(faults) > 2 else "")
