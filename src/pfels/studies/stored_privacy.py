"""The privacy figures of a run directory: of a finished run as it ended, of an unfinished one up to its last round."""

from pathlib import Path

from pfels.documents.privacy import RunPrivacy, StoredPrivacy
from pfels.documents.run import Summary
from pfels.errors import InputError, shown
from pfels.experiment import reader, secret_seed
from pfels.experiment.assumptions import with_assumptions, with_data_notes
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.code import difference, foreign_code
from pfels.experiment.deployment import Deployment
from pfels.experiment.directory import RunDirectory
from pfels.experiment.forecast import forecast
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import frame_of, link_of
from pfels.experiment.possible import DEVICES
from pfels.experiment.reader import StoredRun
from pfels.experiment.replay import close
from pfels.schemes.registry import is_foreign

SLACK = 1e-9  # relative; sums in another order
SAME = 1e-6  # relative; versions may differ in the last digits


def stored_privacy(path: Path) -> StoredPrivacy:
    """Every privacy figure of the run in a directory, with what each assumption costs if it fails.

    The rounds of an unfinished simulation are planned again, which gives the very figures that a run ends with, and
    held against its log. An unfinished deployment has the figures of its last checkpoint. Of a finished simulation what
    several antennas hear is worked out again.
    """
    if not (path / "config.toml").exists():
        raise InputError(f"{path}: no run directory, for it has no config.toml; give the directory of one run")
    try:
        run = reader.read(path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if run.summary is not None:
        _require_prices(run, run.summary)
        return _document(run, run.summary["privacy"], run.rounds)
    if run.last is None:
        raise InputError(f"{path}: no round is done yet; pfels privacy {path / 'config.toml'} says what it will cost")
    if "carrier" in run.environment:
        last = _checkpoint(run)
        return _document(run, _deployed(run, last), last.round)
    return _document(run, _simulated(run), run.rounds)


def _document(run: StoredRun, figures: RunPrivacy, rounds: int) -> StoredPrivacy:
    config = run.config
    if is_foreign(config.scheme):
        figures["audited"] = False  # which earlier versions did not say
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
    before = [each for each in run.environment.get("code", []) if each["role"] != "play_round"]
    if before and (other := difference(before, foreign_code(run.config))):
        raise InputError(f"{run.name}: {other}; the rounds of an unfinished run are planned anew, by that code alone")
    dimension = None
    if run.config.data.name == "file":  # which may be gone, or elsewhere
        dimension = _checkpoint(run).dimension
    figures, planned = _planned(run, dimension)
    logged, found = run.columns["server_epsilon"][-1], planned
    if found is not None and not abs(logged - found) <= SLACK * found:
        raise InputError(
            f"{run.name}: rounds.jsonl ends with ε = {logged:g} against the server, and its config gives {found:g}; "
            "the log is not of this config, or of another version"
        )
    return figures


def _planned(run: StoredRun, dimension: int | None) -> tuple[RunPrivacy, float | None]:
    """The figures of a run's rounds, planned again, and ε against the server."""
    if run.config.data.devices > DEVICES:
        raise InputError(f"{run.name}: data.devices = {run.config.data.devices}: more than {DEVICES}; too many to plan")
    link = link_of(run.config, dimension=dimension)
    frame, scheme = frame_of(run.config), run.config.scheme
    ledger = forecast({scheme: link}, rounds=run.rounds, frame=frame)[scheme].ledger()
    figures = ledger.privacy(link.setting)
    found = with_assumptions(figures, ledger.server, link, rounds=run.rounds, over_air=True)
    notes = run.environment.get("data_notes", [])
    found = with_data_notes(found, notes, ledger.server, delta=link.setting.delta)
    return found, figures["server"]["epsilon"]


def _require_prices(run: StoredRun, summary: Summary) -> None:
    """An InputError unless a finished simulation's prices are those of its rounds, if they are planned here as they
    were then: another version may plan otherwise."""
    said = summary["privacy"]
    if "carrier" in run.environment or "assumptions" not in said:
        return
    figures, planned = _planned(run, summary["dimension"])
    if not close(planned, said["server"]["epsilon"], relative=SLACK):
        return
    known, prices = (
        {each["name"]: each["epsilon"] for each in one["assumptions"]}
        | {f"the server has {m} antennas": each for m, each in one.get("server_by_antennas", {}).items()}
        for one in (figures, said)
    )
    for name, epsilon in prices.items():
        if not close(epsilon, known.get(name, epsilon), relative=SAME):
            raise InputError(
                f"{run.name}: summary.json: altered: if {shown(name)}, ε = {epsilon}, and the run's rounds give "
                f"{known[name]}; restore it from a backup"
            )


def _deployed(run: StoredRun, last: Checkpoint) -> RunPrivacy:
    config, about = run.config, run.environment
    link = link_of(config, dimension=last.dimension)
    ledger = Ledger.restore(last.tensors, last.totals, devices=config.data.devices)
    figures = with_assumptions(ledger.privacy(link.setting), ledger.server, link, rounds=last.round, over_air=False)
    figures = with_data_notes(figures, about.get("data_notes", []), ledger.server, delta=link.setting.delta)
    return Deployment(about["carrier"], about.get("noise", "seed"), secret_seed.kept(run.path)).checked_privacy(figures)


def _checkpoint(run: StoredRun) -> Checkpoint:
    last = RunDirectory(run.path, run.config).checkpoint()
    if last is None:
        raise InputError(f"{run.name}: has no checkpoint yet; it comes after {run.config.run.checkpoint_every} rounds")
    return last
