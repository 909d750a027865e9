"""Run directories, named by what sets them apart."""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from pfels.config.load import differing_keys, load_config
from pfels.config.tree import Config
from pfels.documents.run import Environment, RoundRecord, Summary, Timing
from pfels.documents.validate import validated
from pfels.errors import InputError, RunError
from pfels.experiment import log, secret_seed
from pfels.experiment.log import LogMark
from pfels.runtime.files import PARTIAL, read_json, to_json, write_atomically
from pfels.runtime.lazy_torch import Tensor
from pfels.seeding import Secret


def point_name(settings: Mapping[str, Any]) -> str:
    """A directory name that reads like the settings: `scheme=pfels,seed=0`."""
    name = ",".join(f"{key}={value}" for key, value in settings.items())
    safe = re.sub(r"[^A-Za-z0-9=,._+-]", "_", name)[:150]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The state after `round` rounds: tensors by name, totals as JSON values, and the log up to there."""

    round: int
    tensors: Mapping[str, Tensor]
    totals: Mapping[str, Any]
    mark: LogMark


class RunDirectory:
    """One run on disk, held by one process at a time."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config, self.log = path, config, path / "rounds.jsonl"

    @property
    def summary(self) -> Summary | None:
        """The summary of a finished run."""
        content = read_json(self.path / "summary.json")
        return None if content is None else validated(Summary, content, f"{self.path / 'summary.json'}")

    def finished(self) -> tuple[Summary, Checkpoint] | None:
        """The summary and the last checkpoint of a finished run, both verified, or None where it is not finished."""
        summary = self.summary
        if summary is None:
            return None
        checkpoint = self.checkpoint()
        if checkpoint is None:
            raise InputError(f"{self.path}: finished, but its checkpoint is gone; delete it and start again")
        return summary, checkpoint

    @property
    def environment(self) -> Environment:
        """What the run was begun with, if it was begun."""
        path = self.path / "environment.json"
        return validated(Environment, read_json(path) or {}, f"{path}")

    @property
    def engine(self) -> str | None:
        """The engine that the run was begun with, if it was begun: the rest of it keeps to that one."""
        return self.environment.get("engine")

    @contextmanager
    def opened(
        self, *, resume: bool, environment: Environment, secret: Secret | None = None
    ) -> Iterator[Checkpoint | None]:
        """Claim the directory for a new run, or for the rest of an unfinished one, and give its checkpoint if any.
        `secret` is the run's seed where that is secret.

        Nothing is written before the directory is known to be fit for it.
        """
        started = check(self.path, self.config)
        if resume and not started:
            raise InputError(f"{self.path}: nothing to resume; start it without --resume")
        if started and not resume:
            raise InputError(f"{self.path}: holds an unfinished run; add --resume, or choose another --out")
        begun, now = self.environment, environment.get("noise", "seed")
        if started and begun and begun.get("noise", "seed") != now:
            raise InputError(
                f"{self.path}: begun with noise = {begun.get('noise', 'seed')!r}, not {now!r}; it must stay the same"
            )
        with _writing(self.path, wrong_input=True):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another process is running in it; wait, or choose another --out"
                ) from None
            except OSError as error:
                raise RunError(
                    f"{self.path}: cannot be locked ({error.strerror}); choose an --out on a file system with locks"
                ) from None
            checkpoint = self.checkpoint() if started else None  # not before: another process may have gone on
            with _writing(self.path, wrong_input=not started):
                if not started:
                    if secret is not None:
                        secret_seed.keep(self.path, secret)
                    write_atomically(self.path / "config.toml", self.config.to_toml().encode())
                write_atomically(self.path / "environment.json", to_json(environment))
                with open(self.log, "ab") as file:  # without what a kill left behind the checkpoint
                    file.truncate(checkpoint.mark.size if checkpoint else 0)
                for leftover in self.path.glob(PARTIAL):
                    leftover.unlink()
            yield checkpoint
        finally:
            os.close(lock)

    def append(self, record: RoundRecord, mark: LogMark) -> LogMark:
        """Add one round's record behind `mark`, cutting off whatever an interrupted process left there."""
        with _writing(self.path):
            return log.append(self.log, record, mark)

    def save(self, checkpoint: Checkpoint, *, seconds: float) -> None:
        """Replace the checkpoint by a newer one. The time taken is kept apart, since it is never the same twice."""
        about = {
            "format": FORMAT,
            "config": self.config.digest(),
            "round": checkpoint.round,
            "totals": checkpoint.totals,
            "log_size": checkpoint.mark.size,
            "log_sha256": checkpoint.mark.sha256.hexdigest(),
        }
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        # One key only: the format keeps several in no fixed order, and equal states must be equal files.
        metadata = {"pfels": f"{_digest(checkpoint.tensors, text)} {text}"}
        from safetensors.torch import save

        blob = save(dict(checkpoint.tensors), metadata)
        with _writing(self.path):
            with open(self.log, "rb") as file:
                os.fsync(file.fileno())
            write_atomically(self.path / "checkpoint.safetensors", blob)
            write_atomically(self.path / "timing.json", to_json({"seconds": seconds}))

    def finish(self, summary: Summary) -> None:
        """Write the summary, which says that the run is finished."""
        with _writing(self.path):
            write_atomically(self.path / "summary.json", to_json(summary))

    @property
    def seconds(self) -> float:
        """How long the run has taken so far, over all the processes that worked on it."""
        path = self.path / "timing.json"
        return validated(Timing, read_json(path) or {"seconds": 0.0}, f"{path}")["seconds"]

    def records(self, mark: LogMark) -> list[RoundRecord]:
        """The records of all rounds up to the mark."""
        with _reading(self.log):
            return log.records(self.log, mark)

    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, verified, or None where there is none yet."""
        path = self.path / "checkpoint.safetensors"
        if not path.exists():
            return None
        damaged = f"{path}: truncated or altered; restore it from a backup, or delete {self.path} and start again"
        try:
            with safe_open(path, framework="pt") as file:
                digest, _, text = file.metadata()["pfels"].partition(" ")
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads(text)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError):
            raise InputError(damaged) from None
        if digest != _digest(tensors, text):
            raise InputError(damaged)
        if about["format"] != FORMAT:
            raise InputError(
                f"{path}: written in format {about['format']}, this version reads format {FORMAT}; delete {self.path} "
                "and run it again"
            )
        if about["config"] != self.config.digest():
            raise InputError(f"{path}: belongs to another config; give {self.path} back the config.toml it began with")
        with _reading(self.log):
            mark = log.marked(self.log, about["log_size"])
        if mark.sha256.hexdigest() != about["log_sha256"]:
            raise InputError(f"{self.log}: truncated or altered; it no longer fits the checkpoint")
        return Checkpoint(about["round"], tensors, about["totals"], mark)


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
    different = differing_keys(load_config(kept), config)
    if different:
        keys = ", ".join(different)
        raise InputError(f"{path}: holds a run of another config, which differs in {keys}; choose another --out")
    return True


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


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
