"""The privacy figures of a run directory: of a finished run as it ended, of an unfinished one up to its last round."""

from pathlib import Path

from pfels.documents.privacy import RunPrivacy, StoredPrivacy
from pfels.errors import InputError
from pfels.experiment import reader, secret_seed
from pfels.experiment.assumptions import with_assumptions
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.code import difference, foreign_code
from pfels.experiment.deployment import Deployment
from pfels.experiment.directory import RunDirectory
from pfels.experiment.forecast import forecast
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import frame_of, link_of
from pfels.experiment.reader import StoredRun

SLACK = 1e-9  # relative; sums in another order


def stored_privacy(path: Path) -> StoredPrivacy:
    """Every privacy figure of the run in a directory, with what each assumption costs if it fails.

    The rounds of an unfinished simulation are planned again, which gives the very figures that a run ends with, and
    held against its log. An unfinished deployment has the figures of its last checkpoint.
    """
    if not (path / "config.toml").exists():
        raise InputError(f"{path}: no run directory, for it has no config.toml; give the directory of one run")
    try:
        run = reader.read(path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if run.summary is not None:
        return _document(run, run.summary["privacy"], run.rounds)
    if run.last is None:
        raise InputError(f"{path}: no round is done yet; pfels privacy {path / 'config.toml'} says what it will cost")
    if "carrier" in run.environment:
        last = _checkpoint(run)
        return _document(run, _deployed(run, last), last.round)
    return _document(run, _simulated(run), run.rounds)


def _document(run: StoredRun, figures: RunPrivacy, rounds: int) -> StoredPrivacy:
    config = run.config
    return {
        **figures,
        "run": run.name,
        "scheme": config.scheme,
        "seed": config.seed,
        "rounds": config.rounds,
        "rounds_done": rounds,
        "finished": run.summary is not None,
    }


def _simulated(run: StoredRun) -> RunPrivacy:
    config, dimension = run.config, None
    before = [each for each in run.environment.get("code", []) if each["role"] == "scheme"]
    if before and (other := difference(before, foreign_code(config.scheme))):
        raise InputError(f"{run.name}: {other}; the rounds of an unfinished run are planned anew, by that code alone")
    if config.data.name == "file":  # which may be gone, or elsewhere
        dimension = len(_checkpoint(run).tensors["theta"])
    link = link_of(config, dimension=dimension)
    ledger = forecast({config.scheme: link}, rounds=run.rounds, frame=frame_of(config))[config.scheme].ledger()
    figures = ledger.privacy(link.setting)
    logged, found = run.columns["server_epsilon"][-1], figures["server"]["epsilon"]
    if found is not None and not abs(logged - found) <= SLACK * found:
        raise InputError(
            f"{run.name}: rounds.jsonl ends with ε = {logged:g} against the server, and its config gives {found:g}; "
            "the log is not of this config, or of another version"
        )
    return with_assumptions(figures, ledger.server, link, rounds=run.rounds, over_air=True)


def _deployed(run: StoredRun, last: Checkpoint) -> RunPrivacy:
    config, about = run.config, run.environment
    link = link_of(config, dimension=len(last.tensors["theta"]))
    ledger = Ledger.restore(last.tensors, last.totals, devices=config.data.devices)
    figures = with_assumptions(ledger.privacy(link.setting), ledger.server, link, rounds=last.round, over_air=False)
    return Deployment(about["carrier"], about.get("noise", "seed"), secret_seed.kept(run.path)).checked_privacy(figures)


def _checkpoint(run: StoredRun) -> Checkpoint:
    last = RunDirectory(run.path, run.config).checkpoint()
    if last is None:
        raise InputError(f"{run.name}: has no checkpoint yet; it comes after {run.config.run.checkpoint_every} rounds")
    return last
