"""Run directories, named by what sets them apart."""

import fcntl
import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from pfels.config.load import differing_keys, stored_config
from pfels.config.tree import Config
from pfels.data.cache import digest
from pfels.data.checksums import checksums, same
from pfels.documents.run import Environment, ForeignCode, RoundRecord, Summary, Timing
from pfels.documents.validate import validated
from pfels.errors import InputError, RunError
from pfels.experiment import checkpoint, code, log, secret_seed, stored
from pfels.experiment.agreement import Evidence, require_agreement
from pfels.experiment.card import Facts, privacy_card
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.checkpoint_file import Wanted, everything
from pfels.experiment.delivery import IN_DIRECTORY, write_card
from pfels.experiment.log import LogMark
from pfels.experiment.possible import ROWS
from pfels.experiment.replay import LogTotals
from pfels.runtime.files import PARTIAL, read_json, to_json, write_atomically
from pfels.runtime.regular import writing
from pfels.seeding import Secret

RESULTS = ("summary.json", "checkpoint.safetensors")  # what a run that goes on, or is read, builds on


def point_name(settings: Mapping[str, Any]) -> str:
    """A directory name that reads like the settings: `scheme=pfels,seed=0`."""
    name = ",".join(f"{key}={value}" for key, value in settings.items())
    safe = re.sub(r"[^A-Za-z0-9=,._+-]", "_", name)[:150]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class RunDirectory:
    """One run on disk, held by one process at a time."""

    def __init__(self, path: Path, config: Config, *, digest: str | None = None) -> None:
        self.path, self.config, self.log, self._known = path, config, path / "rounds.jsonl", digest

    @property
    def summary(self) -> Summary | None:
        """The summary of a finished run, as it was written; `finished` holds it against the run."""
        content = read_json(self.path / "summary.json")
        return None if content is None else validated(Summary, content, f"{self.path / 'summary.json'}")

    def finished(self, *, figures: bool = True) -> tuple[Summary, Checkpoint] | None:
        """The summary and the last checkpoint of a finished run, held against its log and each other, or None where it
        is not finished. Of the checkpoint the models are there, and the ledger. Without `figures` privacy figures are
        taken from the summary, since working them out takes the scheme."""
        summary = self.summary
        if summary is None:
            return None
        found = LogTotals()
        checkpoint = self.checkpoint(wanted=lambda name: name in ("theta", "average") or name not in ROWS, totals=found)
        if checkpoint is None:
            raise InputError(f"{self.path}: finished, but its checkpoint is gone; delete it and start again")
        run = Evidence(self.config, found, checkpoint, self.environment)
        require_agreement(summary, run, self.path / "summary.json", figures=figures)
        return summary, checkpoint

    @property
    def environment(self) -> Environment:
        """What the run was begun with, if it was begun."""
        return environment_of(self.path)

    @cached_property  # every checkpoint holds it, and the file stays as it is
    def _digest(self) -> str:
        """The hash of the config that the run was begun with: the same data may be elsewhere now."""
        if self._known is not None:
            return self._known
        kept = self.path / "config.toml"
        return (stored_config(kept) if os.path.lexists(kept) else self.config).digest()

    @property
    def engine(self) -> str | None:
        """The engine that the run was begun with, if it was begun: the rest of it keeps to that one."""
        return self.environment.get("engine")

    @contextmanager
    def opened(
        self, *, resume: bool, environment: Environment, secret: Secret | None = None, dimension: int | None = None
    ) -> Iterator[Checkpoint | None]:
        """Claim the directory for a new run, or for the rest of an unfinished one, and give its checkpoint if any.
        `secret` is the run's seed where that is secret, and `dimension` the length of its model.

        Nothing is written before the directory is known to be fit for it.
        """
        self._require_fit(resume, environment)
        with _writing(self.path, wrong_input=True):
            self.path.mkdir(parents=True, exist_ok=True)
        with self._held():
            started = self._require_fit(resume, environment)  # again: another process may have gone on until now
            last = self.checkpoint(dimension=dimension) if started else None
            stored.require_continuable(last, dimension, self.path)
            with _writing(self.path, wrong_input=not started):
                if not started:
                    if secret is not None:
                        secret_seed.keep(self.path, secret)
                    write_atomically(self.path / "config.toml", self.config.to_toml().encode())
                write_atomically(self.path / "environment.json", to_json(environment))
                log.cut(self.log, last.mark.size if last else 0)  # without what a kill left behind the checkpoint
                for leftover in self.path.glob(PARTIAL):
                    leftover.unlink()
            yield last

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes out of the directory."""
        with _writing(self.path, wrong_input=True):
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(f"{self.path}: another process is running in it; wait, or choose another --out") from None
        except OSError as error:
            os.close(lock)
            raise RunError(
                f"{self.path}: cannot be locked ({error.strerror}); choose an --out on a file system with locks"
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    def require_same_code(self, now: Sequence[ForeignCode], *, derived: Collection[str] = ()) -> None:
        """An InputError where the directory holds rounds that other code from outside this package made. `derived`
        are settings that follow from the others and from the code, such as an ε that a budget sets."""
        if self._is_begun(derived) and any((self.path / name).exists() for name in RESULTS):
            code.require_same_code(self.path, self.config.scheme, self.environment, now)

    def _is_begun(self, derived: Collection[str]) -> bool:
        kept = self.path / "config.toml"
        if derived and kept.is_file() and set(differing_keys(stored_config(kept), self.config)) <= set(derived):
            return True
        return check(self.path, self.config)

    def discard(self, *, derived: Collection[str] = ()) -> bool:
        """Delete what is stored of the run, so that it begins anew; whether there was one. The summary goes first, so
        that a kill leaves an unfinished run, and the config stays, which says that the directory is this run's."""
        if not self._is_begun(derived):
            return False
        with self._held(), _writing(self.path, wrong_input=True):
            if (self.path / "begun.json").exists() or (self.path / secret_seed.NAME).exists():
                raise InputError(f"{self.path}: a deployment's run cannot be made anew; choose another --out")
            cards = (f"{IN_DIRECTORY}.privacy.json", f"{IN_DIRECTORY}.privacy.md")
            for name in (*RESULTS, *cards, "rounds.jsonl", "timing.json", "environment.json"):
                (self.path / name).unlink(missing_ok=True)
            write_atomically(self.path / "config.toml", self.config.to_toml().encode())
        return True

    def _require_fit(self, resume: bool, environment: Environment) -> bool:
        """Whether the run has begun; an InputError unless it may begin, or go on, as it is asked for."""
        started = check(self.path, self.config)
        if resume and not started:
            raise InputError(f"{self.path}: nothing to resume; start it without --resume")
        if started and self.summary is not None:
            raise InputError(f"{self.path}: another process has finished it; the same command reads it")
        if started and not resume:
            raise InputError(f"{self.path}: holds an unfinished run; add --resume, or choose another --out")
        begun, now = self.environment, environment.get("noise", "seed")
        if started and begun and begun.get("noise", "seed") != now:
            raise InputError(
                f"{self.path}: begun with noise = {begun.get('noise', 'seed')!r}, not {now!r}; it must stay the same"
            )
        if started and "data" in begun and not same(begun["data"], environment.get("data", {})):
            raise InputError(
                f"{self.path}: begun with other data (environment.json has their checksums); give it those"
            )
        if not started and log.members(self.config) > log.MEMBERS:
            raise InputError(
                f"cohort.size = {self.config.cohort.size}: a run directory holds rounds of at most {log.MEMBERS} "
                f"devices, twice the size and 1,000 more; choose a smaller one"
            )
        if started and os.path.lexists(self.log):
            with _reading(self.log), writing(self.log):
                pass
        if started and any((self.path / name).exists() for name in RESULTS):
            code.require_same_code(self.path, self.config.scheme, begun, environment.get("code", []))
        _ = self.seconds  # which must be readable, too
        return started

    def append(self, record: RoundRecord, mark: LogMark) -> LogMark:
        """Add one round's record behind `mark`, cutting off whatever an interrupted process left there."""
        with _writing(self.path):
            return log.append(self.log, record, mark)

    def save(self, state: Checkpoint, *, seconds: float) -> None:
        """Replace the checkpoint by a newer one. The time taken is kept apart, since it is never the same twice."""
        with _writing(self.path):
            log.sync(self.log)
            checkpoint.write(self.path / "checkpoint.safetensors", state, config=self._digest)
            write_atomically(self.path / "timing.json", to_json({"seconds": seconds}))

    def finish(self, summary: Summary, facts: Facts) -> None:
        """Write the privacy card of the model in the checkpoint, then the summary, which says that the run is
        finished."""
        with _writing(self.path):
            last = self.path / "checkpoint.safetensors"
            card = privacy_card(facts, file=last.name, sha256=digest(last, "sha256"))
            write_card(self.path / IN_DIRECTORY, card)
            write_atomically(self.path / "summary.json", to_json(summary))

    @property
    def seconds(self) -> float:
        """How long the run has taken so far, over all the processes that worked on it."""
        path = self.path / "timing.json"
        try:
            return validated(Timing, read_json(path) or {"seconds": 0.0}, f"{path}")["seconds"]
        except InputError as error:
            raise InputError(f"{error}; delete it, and the time counts from here") from None

    def records(self, mark: LogMark) -> list[RoundRecord]:
        """The records of all rounds up to the mark."""
        with _reading(self.log), log.opened(self.log, self.config) as file:
            found = list(file.records(size=mark.size))
            if file.marked(mark.size, rounds=len(found)).sha256.hexdigest() != mark.sha256.hexdigest():
                raise InputError(f"{self.log}: altered since the run was read")
            return found

    def checkpoint(
        self, *, wanted: Wanted = everything, dimension: int | None = None, totals: LogTotals | None = None
    ) -> Checkpoint | None:
        """The latest checkpoint with the tensors that are `wanted`, verified and held against the log, or None where
        there is none yet. `dimension` is that of the model, where it is known; `totals` takes what the log adds up to.
        """
        with _reading(self.log):
            return stored.checkpoint(
                self.path, self.config, self._digest, wanted=wanted, dimension=dimension, totals=totals or LogTotals()
            )


def check(path: Path, config: Config) -> bool:
    """Whether the directory already holds this run, begun or finished; an InputError if it holds anything else."""
    kept = path / "config.toml"
    for folder in (path, *path.parents):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; --out must be a directory")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{os.fsencode(path)!r}: not valid UTF-8; --out must be") from None
    if not path.exists():
        return False
    if not kept.exists():
        left = (secret_seed.NAME, PARTIAL)  # by a kill before the run began
        if not all(any(map(entry.match, left)) for entry in path.iterdir()):
            raise InputError(f"{path}: holds other files; --out must be new, empty, or a run of the same config")
        return False
    before = stored_config(kept)
    different = differing_keys(before, config)
    if different == ["data.path"] and _same_data(path, before, config):
        return True
    if different:
        keys = ", ".join(different)
        raise InputError(f"{path}: holds a run of another config, which differs in {keys}; choose another --out")
    return True


def _same_data(path: Path, before: Config, config: Config) -> bool:
    """Whether data that are elsewhere now are those that the run in a directory was begun with."""
    was, now = before.data.path, config.data.path
    if was is not None and now is not None and Path(was).absolute() == Path(now):  # older versions kept it relative
        return True
    recorded = environment_of(path).get("data")
    return bool(recorded) and same(recorded or {}, checksums(config.data.name, now))


def environment_of(path: Path) -> Environment:
    """What the run in a directory was begun with, if it was begun."""
    file = path / "environment.json"
    return validated(Environment, read_json(file) or {}, f"{file}")


@contextmanager
def _writing(path: Path, *, wrong_input: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if wrong_input:
            raise InputError(f"{path}: cannot be written ({reason}); choose a writable --out") from None
        raise RunError(
            f"{path}: cannot be written ({reason}); the last checkpoint is intact: fix the cause, then run again "
            "with --resume"
        ) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
